"""The private parts of Keras that we touch are what we take them for."""

import keras
import numpy as np
import pytest

from bayesian_layers import keras_contact

X = np.arange(12.0, dtype="float32").reshape(4, 3)


class Outer(keras.Layer):
    """A layer with two others in it, one of them in a list."""

    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(2)
        self.others = [keras.layers.Dropout(0.5)]


def test_flat_layers_are_a_layer_and_all_within_it():
    outer = Outer()
    assert keras_contact.flat_layers(outer) == [outer, outer.first, *outer.others], (
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
    assert kept["layer"] not in keras_contact.flat_layers(model), (
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
