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


def test_layers_run_as_if_another_called_them_in_training():
    dropout, outer = keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(1)
    with keras_contact.calling(outer, training=True):
        assert keras_contact.calling_model() is outer
        assert keras_contact.is_training() is True
        assert np.any(ops.convert_to_numpy(dropout(np.ones((4, 8)))) == 0.0)
    assert keras_contact.calling_model() is None
    assert keras_contact.is_training() is None
    assert np.all(ops.convert_to_numpy(dropout(np.ones((4, 8)))) == 1.0)


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


# Weights and losses of a layer itself.


def dense(cls=keras.layers.Dense, units=2, **kwargs):
    layer = cls(units, **kwargs)
    layer.build((None, 3))
    return layer


def test_own_variables_are_those_of_the_layer_trained_ones_first():
    class Both(keras.Layer):
        def build(self, input_shape):
            self.still = self.add_weight((), trainable=False)
            self.inner = dense()
            self.moved = self.add_weight(())

    layer = Both()
    layer.build((None, 3))
    found = keras_contact.own_variables(layer)
    assert [v is w for v, w in zip(found, [layer.moved, layer.still], strict=True)] == [
        True,
        True,
    ], (
        "`Layer._trainable_variables + Layer._non_trainable_variables` are not the "
        "variables of a layer itself in the order of Keras' files: what was saved "
        "would be loaded into other weights."
    )


def test_own_losses_are_asked_for_once_by_layer():
    class Loss(keras.layers.Dense):
        def _get_own_losses(self):
            return [*keras_contact.own_losses(self, Loss), ops.ones(())]

        def call(self, inputs):
            self.add_loss(ops.convert_to_tensor(2.0))
            return super().call(inputs)

    layer = Loss(2)
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
    model(X)
    message = (
        "`Layer.losses` does not ask each layer once for `Layer._get_own_losses`: "
        "divergences would be missing from `model.losses`, or counted twice."
    )
    assert sorted(float(loss) for loss in model.losses) == [1.0, 2.0], message
    assert [float(x) for x in keras_contact.own_losses(layer, Loss)] == [2.0], message
    _, _, losses = model.stateless_call(
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
        X,
        return_losses=True,
    )
    assert sorted(float(loss) for loss in losses) == [1.0, 2.0], message


def test_quantized_policies_are_known():
    for policy, expected in [
        ("float32", False),
        ("mixed_bfloat16", False),
        ("int8_from_float32", True),
        ("float8_from_mixed_bfloat16", True),
    ]:
        layer = keras.layers.Dense(2, dtype=policy)
        assert keras_contact.is_quantized(layer) == expected, (
            f"`dtype_policy.quantization_mode` does not tell that {policy!r} is a "
            "quantized policy or not: a Bayesian layer would be silently "
            "deterministic."
        )


@pytest.mark.parametrize("cls", [keras.layers.Dense, keras.layers.Embedding])
def test_lora_is_seen_and_read(cls):
    layer = cls(3, 2) if cls is keras.layers.Embedding else cls(2)
    layer.build((None, 3))
    attribute = "_embeddings" if cls is keras.layers.Embedding else "_kernel"
    assert not keras_contact.has_lora(layer)
    assert keras_contact.lora_variables(layer) == []
    layer.enable_lora(1)
    matrices = keras_contact.lora_variables(layer)
    message = (
        "LoRA is not where it was in Keras (`lora_enabled`, weights called `lora_...`, "
        f"the sum behind the property without the underscore of `{attribute}`): the "
        "mean of a posterior would lack it."
    )
    assert keras_contact.has_lora(layer), message
    assert [tuple(matrix.shape) for matrix in matrices] == [(3, 1), (1, 2)], message
    for matrix in matrices:
        matrix.assign(ops.ones(matrix.shape))
    plain = ops.convert_to_numpy(getattr(layer, attribute))
    found = keras_contact.read_with_lora(layer, attribute)
    # Of rank 1, with the default factor alpha / rank = 1.
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), plain + 1.0, rtol=1e-5, err_msg=message
    )


def test_lora_is_off_where_its_switch_is():
    layer = dense()
    layer.enable_lora(1)
    layer.lora_kernel_b.assign(ops.ones((1, 2)))
    layer.lora_enabled = False
    np.testing.assert_array_equal(
        ops.convert_to_numpy(layer.kernel),
        ops.convert_to_numpy(layer._kernel),
        err_msg="`lora_enabled = False` does not leave LoRA out of the kernel: draws "
        "would have it twice.",
    )


# Files.


def test_classes_are_filed_under_other_names_within_the_block_only(tmp_path):
    class Other(keras.layers.Dense):
        pass

    def model_of(*classes):
        return keras.Sequential([keras.Input((3,)), *[cls(3) for cls in classes]])

    saved = model_of(keras.layers.Dense, keras.layers.Dense)
    saved.save_weights(tmp_path / "m.weights.h5")
    model = model_of(keras.layers.Dense, Other)
    with keras_contact.filed_under({Other: "Dense"}):
        model.load_weights(tmp_path / "m.weights.h5")
    for old, new in zip(saved.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(
            old,
            new,
            err_msg="Weight files do not name layers by `__name__` of their classes: "
            "deterministic checkpoints would load into other layers.",
        )
    with pytest.raises(KeyError), keras_contact.filed_under({Other: "Dense"}):
        raise KeyError
    assert Other.__name__ == "Other"


# Calls that are under way.


class Look(keras.layers.Dense):
    """Writes down, for each call, what a function says."""

    def __init__(self, units, look, **kwargs):
        super().__init__(units, **kwargs)
        vars(self).update(look=look, seen=[])  # Not tracked by Keras.

    def call(self, inputs, training=None):
        self.seen.append(self.look(self))
        return super().call(inputs)


def test_a_call_of_a_model_has_one_object_that_ends_with_it():
    look = Look(3, lambda layer: id(keras_contact.model_call()))
    model = keras.Sequential([keras.Input((3,)), look])
    twice = keras.Sequential([keras.Input((3,)), model, keras.layers.Dense(3), look])
    look.seen.clear()
    twice(X)
    message = (
        "There is no one object for the outermost call under way: what a recurrent "
        "cell draws would not last for the sequence, or outlive it."
    )
    assert len(look.seen) == 2, message
    assert look.seen[0] == look.seen[1] != id(None), message
    assert keras_contact.model_call() is None, message


def test_training_of_a_compiled_model_is_seen():
    look = Look(1, lambda layer: keras_contact.trained_model())
    model = keras.Sequential([keras.Input((3,)), look])
    message = "`fit` is not told from other calls: warnings about training are lost."
    model(X)
    assert look.seen[-1] == (None, False), message
    model.compile("sgd", "mse")
    look.seen.clear()
    model(X)
    assert look.seen == [(model, False)], message
    look.seen.clear()
    model(X, training=True)
    assert look.seen == [(model, True)], message
    look.seen.clear()
    model.fit(X, np.ones((4, 1)), verbose=0)
    assert any(seen[0] is model for seen in look.seen), message
    if keras.backend.backend() != "jax":
        assert (model, True) in look.seen, message


def test_symbolic_and_stateless_scopes_are_seen():
    seen = []

    class Scopes(keras.Layer):
        def call(self, inputs):
            scopes = keras_contact.in_symbolic_scope, keras_contact.in_stateless_scope
            seen.append(tuple(scope() for scope in scopes))
            return 2.0 * inputs

    layer = Scopes()
    layer(keras.Input((3,)))
    assert seen[-1][0], "A symbolic call does not run in a `SymbolicScope`."
    layer(X)
    assert seen[-1] == (False, False)
    layer.stateless_call([], [], X)
    assert seen[-1] == (False, True), "`stateless_call` has no `StatelessScope`."


def test_a_loss_of_its_own_is_seen():
    class Loss(keras.Model):
        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs)

    class Step(keras.Sequential):
        def train_step(self, *args):
            return super().train_step(*args)

    for model, expected in [
        (keras.Sequential(), False),
        (keras.Model(), False),
        (Loss(), True),
        (Step(), True),
    ]:
        assert keras_contact.has_own_loss(model) == expected, (
            "A model that overrides `compute_loss` or `train_step` is not told from "
            "others: it would be warned without reason, or not at all."
        )


class User(keras.Model):
    """A model of a user, with layers in an attribute and in a list."""

    def __init__(self, look):
        super().__init__(name="user")
        self.first = Look(3, look, name="a")
        self.others = [Look(3, look, name="b"), Look(3, look, name="c")]

    def call(self, inputs):
        for layer in (self.first, *self.others):
            inputs = layer(inputs)
        return inputs


def test_paths_of_calls_are_names_and_of_users_models_attributes():
    look = keras_contact.called_path
    message = "The layers whose calls are under way are not found: draws have no names."
    inner = Look(3, look, name="inner")
    model = keras.Sequential(
        [keras.Input((3,)), keras.Sequential([inner], name="middle")], name="outer"
    )
    model(X)
    assert inner.seen[-1] == "outer/middle/inner", message
    assert keras_contact.called_path(inner) == "inner", message
    user = User(look)
    user(X)
    found = [layer.seen[-1] for layer in (user.first, *user.others)]
    assert found == ["user/first", "user/others_0", "user/others_1"], message


def test_the_loop_of_time_distributed_is_seen():
    look = Look(2, lambda layer: keras_contact.in_time_distributed())
    look.build((None, 3))
    keras.layers.TimeDistributed(look)(np.ones((2, 4, 3), "float32"))
    assert look.seen and all(look.seen), (
        "`TimeDistributed` is not seen among the calls under way: each step would have "
        "weights of its own."
    )
    look(X)
    assert not look.seen[-1]


def test_the_backward_direction_is_seen():
    seen = set()

    @keras.saving.register_keras_serializable("tests")
    class Directed(keras.layers.SimpleRNN):
        def call(self, *args, **kwargs):
            seen.add((self.name, keras_contact.in_backward_direction()))
            return super().call(*args, **kwargs)

    both = keras.layers.Bidirectional(Directed(2, name="rnn"))
    both(np.ones((2, 4, 3), "float32"))
    assert seen == {("forward_rnn", False), ("backward_rnn", True)}, (
        "The backward layer of a `Bidirectional` is not told from the forward one: "
        "both would have the same noise."
    )


# Compiled functions and optimizers.


def test_compiled_functions_are_set_aside_and_given_back():
    value = {"at": 1.0}

    class Read(keras.Layer):
        def call(self, inputs):
            return inputs * value["at"]

    model = keras.Sequential([keras.Input((3,)), Read()])

    def predict():
        return float(model.predict(X, verbose=0)[0, 1])

    message = (
        "Setting aside `predict_function` does not make Keras trace the model anew: "
        "weights held in a block would stay held, or not be."
    )
    assert predict() == 1.0
    before = model.predict_function
    value["at"] = 2.0
    had = keras_contact.exchange_compiled_functions(model, {})
    assert predict() == 2.0, message
    keras_contact.exchange_compiled_functions(model, had)
    assert model.predict_function is before, message
    assert "predict_step" not in vars(model), message
    value["at"] = 1.0
    assert predict() == 1.0, message
    assert keras_contact.exchange_compiled_functions(keras.layers.Dense(1), {}) == {}


def test_weight_decay_is_seen_by_variable():
    layer = dense()
    kernel, bias = layer.kernel, layer.bias
    optimizer = keras.optimizers.AdamW(weight_decay=0.01)
    message = "`Optimizer._use_weight_decay` does not tell what is decayed."
    assert keras_contact.is_decayed(optimizer, kernel), message
    optimizer = keras.optimizers.AdamW(weight_decay=0.01)
    optimizer.exclude_from_weight_decay(var_names=["bias$"])
    optimizer.build([kernel, bias])
    assert keras_contact.is_decayed(optimizer, kernel), message
    assert not keras_contact.is_decayed(optimizer, bias), message
    for plain in (keras.optimizers.SGD(), keras.optimizers.AdamW(weight_decay=0.0)):
        assert not keras_contact.is_decayed(plain, kernel), message


def test_a_built_layer_gets_and_forgets_weights_in_a_block():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    with keras_contact.unlocked(layer):
        added = layer.add_weight((2,), name="added")
    assert any(v is added for v in layer.trainable_variables)
    with pytest.raises(ValueError, match="cannot add new elements of state"):
        layer.add_weight((2,), name="other")
    keras_contact.untrack(layer, added)
    assert not any(v is added for v in layer.variables)


def test_a_model_tells_the_number_of_batches_of_its_last_fit():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    assert keras_contact.steps_of_epoch(model) == 0
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=3, verbose=0)
    assert keras_contact.steps_of_epoch(model) == 2


class Holder(keras.Layer):
    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.parts = [keras.layers.Dense(2)]
        self.number = 3

    def build(self, shape):
        self.factor = self.add_weight(shape[-1:], name="factor")
        self.parts[0].build(shape)

    def call(self, x):
        return self.parts[0](x) * self.number * self.factor


def test_a_blank_copy_has_all_attributes_but_those_that_keras_sets_itself():
    model = keras.Sequential([keras.Input((2,)), Holder()])
    model.compile("adam", "mse")
    x = np.ones((4, 2), dtype="float32")
    model.fit(x, x, verbose=0)
    model.predict(x, verbose=0)
    copy, attributes = keras_contact.blank_copy(model.layers[0])
    assert type(copy) is Holder
    assert not copy.weights
    named = {name for name in attributes if not name.startswith("_")}
    assert named <= {
        *("number", "parts", "factor"),
        *("supports_jit", "activity_regularizer", "autocast"),
    }
    assert {"number", "parts", "factor"} <= named
    assert {name for name in attributes if name.startswith("_")} <= set(
        keras_contact._COPIED
    ), "Keras keeps something new with a layer that was trained: copy it, or not?"
    with keras_contact.building(copy):
        for name, value in attributes.items():
            if name == "factor":
                value = keras_contact.copied_variable(value)
            setattr(copy, name, value)
    assert copy.built and copy.supports_masking
    assert len(copy.weights) == 3
    np.testing.assert_array_equal(copy.get_weights()[0], model.get_weights()[0])


class Subclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.part = keras.layers.Dense(2)

    def call(self, x):
        return self.part(x)


def test_a_blank_copy_of_a_trained_model_is_not_compiled():
    model = Subclass()
    model.compile("adam", "mse", metrics=["mae"])
    x = np.ones((4, 2), dtype="float32")
    model.fit(x, x, verbose=0)
    model.evaluate(x, x, verbose=0)
    model.predict(x, verbose=0)
    copy, attributes = keras_contact.blank_copy(model)
    assert not copy.compiled
    assert {name for name in attributes if name not in keras_contact._COPIED} == {
        "part"
    }, "`compile`, `fit` or `predict` keeps something new with the model."


def test_a_graph_runs_through_other_operations():
    inputs = keras.Input((2,))
    dense = keras.layers.Dense(2)
    model = keras.Model(inputs, dense(dense(inputs)))
    other = keras.layers.Dense(2)
    again = keras_contact.input_like(model.inputs[0])
    assert again.shape == inputs.shape
    asked = []

    def operation(layer):
        asked.append(layer)
        return other

    outputs = keras_contact.run_through(model, again, operation)
    assert asked == [dense, dense]
    copy = keras.Model(again, outputs)
    assert copy.layers[-1] is other
    assert copy.layers[0].name == model.layers[0].name
    assert keras_contact.is_functional(copy)
    assert not keras_contact.is_functional(Subclass())
    assert keras_contact.takes_graph(keras.Model)
    assert not keras_contact.takes_graph(Subclass)


def test_a_layer_tells_of_its_parts_and_its_own_variables():
    layer = Holder()
    layer.build((None, 2))
    assert keras_contact.parts_of(layer) == layer.parts
    layer.trainable = False
    assert keras_contact.own_trainable_variables(layer) == [layer.factor]


def test_a_variable_asks_the_stateless_scope_in_force_for_its_value():
    """Else `bl.VariationalInference` finds nothing to train."""
    first, second = keras.Variable(1.0, name="first"), keras.Variable(2.0)

    def function():
        first.assign(ops.convert_to_tensor(first) + 1.0)
        assert keras_contact.carrying_scope() is None
        return ops.convert_to_tensor(first)

    assert keras_contact.variables_read(function) == [first]
    assert float(ops.convert_to_numpy(first)) == 1.0
    with keras.StatelessScope(state_mapping=[(second, ops.zeros(()))]) as scope:
        assert keras_contact.carrying_scope() is scope
    assert keras_contact.carrying_scope() is None


def test_variables_can_be_read_as_they_are_stored():
    class Read(keras.layers.Dense):
        seen = []

        def call(self, inputs):
            with keras_contact.uncast_variables():
                self.seen.append(ops.convert_to_tensor(self.kernel).dtype)
            self.seen.append(ops.convert_to_tensor(self.kernel).dtype)
            return super().call(inputs)

    Read(2, dtype="mixed_bfloat16")(X)
    seen = [keras.backend.standardize_dtype(dtype) for dtype in Read.seen[-2:]]
    assert seen == ["float32", "bfloat16"], (
        "`AutocastScope(None)` does not stop Keras from casting variables: reversible "
        "stacks would be differentiated at rounded weights."
    )


def test_losses_of_a_call_are_forgotten():
    layer = keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2")])
    layer(X)
    with keras.StatelessScope(collect_losses=True) as scope:
        layer(X)
        (loss,) = scope.losses
        assert len(layer.losses) == 1
        keras_contact.forget_losses(layer)
        # Another loss, at the same place in memory, would be taken for this one.
        scope.losses.append(loss)
        message = "`Layer._clear_losses` leaves losses of a scope with a layer."
        assert layer.losses == [], message


def test_classes_of_keras_are_told_from_others():
    assert keras_contact.is_of_keras(keras.layers.Dense)
    assert keras_contact.is_of_keras(keras.Sequential)
    assert not keras_contact.is_of_keras(Holder)
