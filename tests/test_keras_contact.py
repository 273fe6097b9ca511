"""What is private in Keras is still there, and means what we take it for."""

import keras
import numpy as np
import pytest
from keras import ops

from bayesian_layers import keras_contact

X = np.arange(12.0, dtype="float32").reshape(4, 3)


def test_the_output_of_a_layer_carries_its_mask():
    tokens = np.array([[1, 2, 0]], "int32")
    outputs = keras.layers.Embedding(3, 2, mask_zero=True)(tokens)
    mask = ops.convert_to_numpy(keras_contact.mask_of(outputs))
    np.testing.assert_array_equal(mask, [[True, True, False]])
    assert keras_contact.mask_of(ops.zeros((2,))) is None


def test_layers_are_found_at_any_depth():
    inner = keras.layers.Dense(2)
    model = keras.Sequential([keras.Sequential([inner])])
    layers = keras_contact.flatten_layers(model)
    assert any(layer is inner for layer in layers)
    assert any(layer is model for layer in layers)
    assert keras_contact.flatten_layers(inner) == [inner]


def test_callbacks_read_from_a_metric_where_it_should_go():
    for direction, expected in (("up", ops.greater), ("down", ops.less)):
        metric = keras_contact.optimized(direction)(
            type("M", (keras.metrics.Mean,), {})
        )
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[_of_squares(metric)])
        stop = keras.callbacks.EarlyStopping(monitor="m")
        model.fit(np.ones((2, 1)), np.ones(2), callbacks=[stop], verbose=0)
        assert stop.monitor_op is expected


class Ask(keras.layers.Dense):
    """Remembers, of the class, which models call it."""

    callers = []

    def call(self, inputs):
        self.callers.append(keras_contact.calling_model())
        return super().call(inputs)


def test_a_layer_knows_the_outermost_model_that_calls_it():
    model = keras.Sequential([keras.Sequential([Ask(1)])])
    model(np.ones((2, 1)))
    assert Ask.callers[-1] is model
    assert keras_contact.calling_model() is None
    for use in (model.fit, model.evaluate):
        model.compile("sgd", "mse", metrics=["mae"])
        Ask.callers.clear()
        use(np.ones((2, 1)), np.ones(2), verbose=0)
        assert any(caller is model for caller in Ask.callers)


def test_metrics_of_an_output_are_those_that_compile_was_given():
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(1, name="hidden")
    first, second = keras.layers.Dense(1, name="a"), keras.layers.Dense(1, name="b")
    x = hidden(inputs)
    one, two = keras.Model(inputs, first(x)), keras.Model(inputs, [first(x), second(x)])
    line = keras.Sequential([hidden, first])
    mae = keras.metrics.MeanAbsoluteError()
    of = keras_contact.compiled_metrics
    assert of(one, first) == []
    for model in (one, line):
        model.compile("sgd", "mse", metrics=["accuracy"], weighted_metrics=[mae])
        assert of(model, first) == ["accuracy", mae]
        assert of(model, hidden) == []
    two.compile("sgd", "mse", metrics=[["mse", mae], ["accuracy"]])
    assert of(two, first) == ["mse", mae]
    assert of(two, second) == ["accuracy"]
    two.compile("sgd", "mse", metrics={"b": "accuracy"})
    assert of(two, first) == []
    assert of(two, second) == ["accuracy"]


def _of_squares(metric):
    class OfSquares(metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            return super().update_state(ops.square(y_pred))

    return OfSquares(name="m")


def test_the_switches_that_leave_inputs_alone_are_there():
    layer = keras.layers.Layer()
    keras_contact.leave_inputs_alone(layer)
    assert layer._convert_input_args is False
    assert layer._allow_non_tensor_positional_args is True


def test_a_keras_without_the_switches_is_an_error_in_words():
    with pytest.raises(RuntimeError, match="no attribute `_convert_input_args`"):
        keras_contact.leave_inputs_alone(object.__new__(keras.layers.Layer))


class Outer(keras.Layer):
    """A layer with two others in it, one of them in a list."""

    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(2)
        self.others = [keras.layers.Dropout(0.5)]


def test_flat_layers_are_a_layer_and_all_within_it():
    outer = Outer()
    assert keras_contact.flatten_layers(outer) == [outer, outer.first, *outer.others], (
        "`Layer._flatten_layers` does not give a layer and those within it, in order: "
        "draws are keyed by that order, and random layers are looked for there."
    )


def test_seed_generators_are_those_of_the_layer_itself():
    dropout = keras.layers.Dropout(0.5)
    assert keras_contact.seed_generators(dropout) == [dropout.seed_generator], (
        "`Layer._seed_generators` does not list the seed generators of a layer: layers "
        "of users that draw would be taken for deterministic."
    )
    assert keras_contact.seed_generators(keras.layers.Dense(2)) == []


def test_seed_states_are_known_by_their_path():
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)]
    )
    states = [v for v in model.variables if keras_contact.is_seed_state(v)]
    assert [v is model.layers[1].seed_generator.state for v in states] == [True], (
        "The path of a seed generator's state does not end with "
        "'seed_generator_state': noise would be the same for all draws."
    )


def test_layers_are_called_in_training_within_the_block_only():
    dropout = keras.layers.Dropout(1 - 1e-6, seed=1)
    model = keras.Sequential([keras.Input((3,)), dropout])

    def total():
        return float(keras.ops.sum(model(X, training=False)))

    with keras_contact.called_in_training([dropout]):
        assert total() == 0.0, (
            "`Layer.__call__` does not look `call` up on the instance: layers named by "
            "`stochastic` would not be random."
        )
    assert total() == X.sum()
    with pytest.raises(KeyError), keras_contact.called_in_training([dropout]):
        raise KeyError
    assert "call" not in vars(dropout)


def test_what_is_kept_with_a_layer_is_not_tracked(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    kept = keras_contact.kept_with(model, "test", dict)
    kept["layer"] = keras.layers.Dense(5)
    assert keras_contact.kept_with(model, "test", dict) is kept
    assert kept["layer"] not in keras_contact.flatten_layers(model), (
        "Keras tracks what is written to the `vars` of a layer."
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert keras_contact.kept_with(loaded, "test", dict) == {}


def test_a_graph_has_its_calls_in_order():
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(3)
    model = keras.Model(inputs, {"y": keras.layers.ReLU()(dense(dense(inputs)))})
    graph = keras_contact.graph_of(model)
    message = "The nodes of a Functional model are not what `bl.predict` splits it by."
    assert [n.operation for n in graph.nodes] == [dense, dense, model.layers[-1]], (
        message
    )
    assert graph.nodes[0].input_tensors[0] is inputs, message
    assert graph.nodes[1].input_tensors[0] is graph.nodes[0].outputs[0], message
    assert graph.outputs["y"] is graph.nodes[2].outputs[0], message
    assert graph.inputs is inputs, message


def test_models_whose_call_is_their_own_have_no_graph():
    class Doubled(keras.Sequential):
        def call(self, inputs, training=None, mask=None):
            return 2.0 * super().call(inputs, training=training, mask=mask)

    layers = [keras.Input((3,)), keras.layers.Dense(2)]
    assert keras_contact.graph_of(keras.Sequential(layers)) is not None
    assert keras_contact.graph_of(Doubled(layers)) is None
    assert keras_contact.graph_of(keras.Sequential([keras.layers.Dense(2)])) is None


def test_masks_of_symbolic_tensors_are_seen():
    tokens = keras.Input((4,), dtype="int32")
    for mask_zero in (True, False):
        embedded = keras.layers.Embedding(5, 3, mask_zero=mask_zero)(tokens)
        assert keras_contact.has_mask(embedded) == mask_zero, (
            "Symbolic tensors do not tell whether they have a mask: it would be lost "
            "between the parts of a model."
        )


def test_nodes_are_taken_back_and_the_model_of_intermediate_tensors_runs():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(2)(inputs)
    model = keras.Model(inputs, keras.layers.Concatenate()([hidden, inputs]))
    with keras_contact.nodes_restored(keras_contact.graph_of(model)):
        part = keras.Model([hidden, inputs], model.output)
    assert [len(layer._inbound_nodes) for layer in model.layers] == [1, 1, 1], (
        "A model of intermediate tensors leaves nodes behind in the layers."
    )
    seen = part([X[:, :2], X])
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(seen), np.concatenate([X[:, :2], X], axis=1)
    )
    assert model(X).shape == (4, 5)


def test_batches_are_the_inputs_of_all_kinds_of_data():
    torch_data = pytest.importorskip("torch.utils.data")
    import torch

    tensor = torch.tensor(X)
    labelled = torch_data.TensorDataset(tensor, torch.zeros(4))
    kinds = {
        "array": X,
        "unlabelled loader": torch_data.DataLoader(tensor, batch_size=2),
        "labelled loader": torch_data.DataLoader(labelled, batch_size=2),
        "generator": ((X[i : i + 2], np.zeros(2)) for i in (0, 2)),
    }
    for kind, data in kinds.items():
        count, batches = keras_contact.batches_of(data, 2)
        batches = list(batches)
        assert count == (None if kind == "generator" else 2)
        assert [batch.shape for batch in batches] == [(2, 3), (2, 3)], (
            f"The data adapter of Keras does not give the inputs of: {kind}."
        )
        np.testing.assert_array_equal(np.concatenate(batches), X)
