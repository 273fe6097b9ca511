import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.differentiation import (
    BACKEND,
    grad,
    jit,
    native_sin,
    second_derivative,
)

NORMAL = bl.distributions.Normal


def variable(**kwargs):
    return bl.Normal([0.0, 1.0, 2.0], 1.0, seed=1, **kwargs)


def array(x):
    return ops.convert_to_numpy(x)


# Construction and value.


def test_the_value_is_drawn_when_first_read_and_then_kept(monkeypatch):
    draws = []
    sample = NORMAL.sample

    def counted(self, *args, **kwargs):
        draws.append(1)
        return sample(self, *args, **kwargs)

    monkeypatch.setattr(NORMAL, "sample", counted)
    w = bl.Normal(0.0, 1.0, sample_shape=(2, 3))
    assert tuple(w.shape) == (2, 3)
    assert (w.dtype, w.ndim, len(draws)) == ("float32", 2, 0)
    assert "not drawn yet" in repr(w)
    np.testing.assert_array_equal(array(w.value), array(w.value))
    assert len(draws) == 1


def test_value_is_taken_as_it_is():
    w = bl.Normal(0.0, 1.0, sample_shape=3, value=[1, 2, 3])
    np.testing.assert_array_equal(array(w.value), [1.0, 2.0, 3.0])
    assert w.dtype == "float32"


@pytest.mark.parametrize(
    ("distribution", "value", "message"),
    [
        (NORMAL([0.0, 0.0], 1.0), [1.0, 2.0, 3.0], r"shape \(2,\).*shape \(3,\)"),
        (NORMAL(0.0, 1.0), np.zeros((2, 1)), r"shape \(\).*shape \(2, 1\)"),
        (bl.distributions.Bernoulli(0.0), 0.5, "dtype int32.*dtype float64"),
        (NORMAL(0.0, 1.0), 1j, "dtype float32.*dtype complex128"),
    ],
)
def test_value_of_wrong_shape_or_dtype_names_both(distribution, value, message):
    with pytest.raises(ValueError, match=message):
        bl.RandomVariable(distribution, value=value)


def test_equal_seeds_give_equal_values_and_no_seed_fresh_ones():
    shape = (1000,)
    first, second = (bl.Normal(0.0, 1.0, sample_shape=shape, seed=3) for _ in range(2))
    np.testing.assert_array_equal(array(first), array(second))
    first, second = (array(bl.Normal(0.0, 1.0, sample_shape=shape)) for _ in range(2))
    # Independent draws of 1000 have a correlation within 0.17 but for 1 case in 1e7.
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.17


def test_repr_shows_name_family_shape_and_value():
    w = bl.Normal(0.0, 1.0, name="w", value=2.0)
    assert repr(w) == "<RandomVariable 'w' Normal shape=() dtype=float32 value=2.>"


# The distribution's methods.


def test_methods_are_those_of_the_distribution():
    w = variable()
    for method in ("mean", "stddev", "variance", "mode", "entropy"):
        expected = getattr(w.distribution, method)()
        np.testing.assert_array_equal(array(getattr(w, method)()), array(expected))
    for method in ("log_prob", "prob", "cdf", "quantile"):
        expected = getattr(w.distribution, method)(0.3)
        np.testing.assert_array_equal(array(getattr(w, method)(0.3)), array(expected))
    expected = w.distribution.sample(5, seed=2)
    np.testing.assert_array_equal(array(w.sample(5, seed=2)), array(expected))
    other = bl.Normal(1.0, 2.0)
    np.testing.assert_allclose(
        array(w.kl_divergence(other)),
        array(bl.distributions.kl_divergence(w.distribution, other.distribution)),
    )


# A tensor to Keras, NumPy and the backend.

OPERATORS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "power": lambda a, b: a**b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
}
OTHERS = {
    "python": 2.0,
    "numpy_scalar": np.float32(2.0),
    "numpy": np.array([1.0, 2.0, 3.0], "float32"),
    "tensor": lambda: ops.convert_to_tensor(np.array([1.0, 2.0, 3.0], "float32")),
    "variable": lambda: bl.Normal(0.0, 1.0, sample_shape=3, value=[1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_act_on_the_value_from_both_sides(operator, other):
    function = OPERATORS[operator]
    other = OTHERS[other]() if callable(OTHERS[other]) else OTHERS[other]
    w = bl.Normal(0.0, 1.0, sample_shape=3, value=[0.5, 1.5, 2.5])
    value = np.array([0.5, 1.5, 2.5], "float32")
    plain = other if isinstance(other, float) else np.asarray(other)
    for result, expected in [
        (function(w, other), function(value, plain)),
        (function(other, w), function(plain, value)),
    ]:
        assert ops.is_tensor(result)
        np.testing.assert_allclose(array(result), expected, rtol=1e-6)


def test_unary_operators_indexing_matmul_and_round():
    w = bl.Normal(0.0, 1.0, sample_shape=(2, 2), value=[[1.0, -2.0], [3.0, 4.4]])
    value = np.array([[1.0, -2.0], [3.0, 4.4]], "float32")
    np.testing.assert_array_equal(array(-w), -value)
    np.testing.assert_array_equal(array(abs(w)), abs(value))
    np.testing.assert_array_equal(array(round(w)), np.round(value))
    np.testing.assert_array_equal(array(w[0]), value[0])
    np.testing.assert_array_equal(array(w[:, 1]), value[:, 1])
    assert ops.is_tensor(w[0])
    np.testing.assert_allclose(array(w @ w), value @ value, rtol=1e-6)
    np.testing.assert_allclose(array(value @ w), value @ value, rtol=1e-6)
    assert float(bl.Normal(0.0, 1.0, value=2.0)) == 2.0


def test_keras_ops_numpy_and_native_functions_take_it():
    w = variable()
    value = array(w.value)
    np.testing.assert_allclose(array(ops.exp(w)), np.exp(value), rtol=1e-6)
    np.testing.assert_allclose(array(ops.sum(w)), value.sum(), rtol=1e-6)
    stacked = ops.stack([w, w])
    np.testing.assert_array_equal(array(stacked), np.stack([value, value]))
    np.testing.assert_array_equal(array(ops.ones_like(w)), np.ones(3))
    np.testing.assert_array_equal(np.asarray(w), value)
    np.testing.assert_array_equal(np.asarray(w, dtype="float64"), value)
    np.testing.assert_array_equal(w.numpy(), value)
    np.testing.assert_allclose(array(native_sin(w)), np.sin(value), rtol=1e-6)


def test_any_keras_layer_takes_it():
    w = bl.Normal(np.zeros((4, 3), "float32"), 1.0)
    dense = keras.layers.Dense(2)
    np.testing.assert_array_equal(array(dense(w)), array(dense(w.value)))


def test_hash_and_membership_are_by_identity():
    v, w = variable(), variable()
    assert hash(w) == hash(w)
    assert {v: 1, w: 2}[w] == 2


def test_it_cannot_be_assigned_to():
    w = variable()
    before = array(w)
    with pytest.raises(ValueError, match="cannot be assigned to"):
        w.assign(np.zeros(3))
    np.testing.assert_array_equal(array(w), before)


def test_as_attribute_of_a_layer_it_is_refused_with_advice():
    layer = keras.layers.Dense(2)
    for value in (variable(), [variable()], {"w": variable()}):
        with pytest.raises(ValueError, match="Keep its `distribution`"):
            layer.noise = value
    layer.noise = variable().distribution
    layer.build((None, 3))
    assert len(layer.weights) == 2


# Gradients.


def test_gradients_flow_through_the_value_and_its_powers():
    def doubled(loc):
        return 2.0 * bl.Normal(loc, 1.0, seed=1)

    def cubed(scale):
        return bl.Normal(0.0, scale, seed=1) ** 3

    np.testing.assert_allclose(grad(doubled, 0.3)[0], 2.0)
    noise = float(bl.Normal(0.0, 1.0, seed=1))
    np.testing.assert_allclose(grad(cubed, 0.5)[0], 3 * noise**3 * 0.25, rtol=1e-5)
    second = second_derivative(cubed, 0.5)
    np.testing.assert_allclose(second, 6 * noise**3 * 0.5, rtol=1e-5)


def test_gradients_flow_through_layers_and_native_functions():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")

    def through_layer(loc):
        return ops.sum(dense(bl.Normal(loc * ops.ones((1, 3)), 1.0, seed=1)))

    def through_native(loc):
        return ops.sum(native_sin(bl.Normal(loc, 1.0, seed=1)))

    dense.build((None, 3))
    np.testing.assert_allclose(grad(through_layer, 0.5)[0], 3.0, rtol=1e-6)
    noise = float(bl.Normal(0.0, 1.0, seed=1))
    expected = np.cos(0.5 + noise)
    np.testing.assert_allclose(grad(through_native, 0.5)[0], expected, rtol=1e-5)


def test_a_distribution_follows_the_keras_variables_among_the_parameters():
    loc = keras.Variable(1.0)
    w = bl.distributions.Normal(loc, 1.0)
    before = array(w.mean())
    loc.assign(5.0)
    assert (before, array(w.mean())) == (1.0, 5.0)


# Compilation.


def test_it_works_inside_and_crosses_compiled_functions():
    def program(loc):
        w = bl.Normal(loc, 1.0, seed=1)
        return w * 2.0, w.log_prob(0.0)

    compiled = jit(program)(ops.convert_to_tensor(0.5))
    for result, expected in zip(compiled, program(0.5), strict=True):
        np.testing.assert_allclose(array(result), array(expected), rtol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="pytrees are JAX's")
def test_it_crosses_jit_and_map_as_a_pytree():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def make(loc):
        return bl.Normal(loc, 2.0, seed=1, name="w")

    @jax.jit
    def read(w):
        return w.log_prob(0.0), w.value

    w = make(jnp.array([0.0, 1.0]))
    assert isinstance(w, bl.RandomVariable)
    assert (w.name, tuple(w.shape)) == ("w", (2,))
    np.testing.assert_allclose(read(w)[0], w.distribution.log_prob(0.0), rtol=1e-6)
    np.testing.assert_array_equal(read(w)[1], w.value)
    mapped = jax.lax.map(make, jnp.zeros((5, 2)))
    assert tuple(mapped.value.shape) == (5, 2)


# The output of a layer.


@keras.saving.register_keras_serializable("tests")
class NormalHead(keras.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, inputs):
        loc, scale = ops.split(inputs, 2, axis=-1)
        return bl.Normal(loc, 0.1 + ops.softplus(scale), seed=self.seed_generator)

    def compute_output_spec(self, inputs):
        shape = (*inputs.shape[:-1], inputs.shape[-1] // 2)
        return keras.KerasTensor(shape, dtype="float32")


@keras.saving.register_keras_serializable("tests")
class NegativeLogLikelihood(keras.losses.Loss):
    def __call__(self, y_true, y_pred, sample_weight=None):
        return -ops.mean(y_pred.log_prob(y_true))


def sequential():
    return keras.Sequential([keras.layers.Dense(2), NormalHead()])


def functional():
    inputs = keras.Input((3,))
    return keras.Model(inputs, NormalHead()(keras.layers.Dense(2)(inputs)))


@pytest.mark.parametrize("make", [sequential, functional])
@pytest.mark.parametrize("loss", ["mse", NegativeLogLikelihood()])
def test_as_output_it_trains_evaluates_predicts_and_saves(make, loss, tmp_path):
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    y = x[:, :1]
    model = make()
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss=loss, metrics=["mae"])
    history = model.fit(x, y, epochs=15, batch_size=8, verbose=0).history
    assert np.mean(history["loss"][-3:]) < history["loss"][0]
    assert set(model.evaluate(x, y, verbose=0, return_dict=True)) == {"loss", "mae"}
    assert model.predict(x, verbose=0).shape == (16, 1)
    assert model.predict_on_batch(x).shape == (16, 1)
    assert isinstance(model(x), bl.RandomVariable)
    assert len(model.weights) == 2
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_allclose(
        array(loaded(x).distribution.loc), array(model(x).distribution.loc), rtol=1e-6
    )


# Compiled functions that it was not made in.


def test_first_read_in_a_compiled_function_it_has_the_value_of_its_seed():
    x = ops.convert_to_tensor(np.ones(3, "float32"))
    w = bl.Normal(0.0, 1.0, seed=1)
    inside = [array(jit(lambda t: t * w.value)(x)) for _ in range(2)]
    outside = float(w)
    assert outside == float(bl.Normal(0.0, 1.0, seed=1))
    for value in inside + [array(jit(lambda t: t * w.value)(x))]:
        np.testing.assert_allclose(value, np.full(3, outside), rtol=1e-6)


def test_first_read_in_a_compiled_function_it_follows_its_parameters():
    loc = keras.Variable([1.0, 2.0])
    w = bl.Normal(loc, 1.0, seed=1)
    inside = array(jit(lambda t: t + w.value)(ops.zeros(2)))
    np.testing.assert_allclose(inside, array(w), rtol=1e-6)


@pytest.mark.skipif(BACKEND == "torch", reason="Nothing is compiled on torch.")
@pytest.mark.parametrize("seed", [None, "generator"])
def test_without_an_integer_seed_it_has_to_be_read_before(seed):
    if seed == "generator":
        seed = keras.random.SeedGenerator(1)
    w = bl.Normal(0.0, 1.0, seed=seed)
    with pytest.raises(ValueError, match="Read `value` before"):
        jit(lambda t: t * w.value)(ops.ones(2))
    value = float(w)
    inside = array(jit(lambda t: t * w.value)(ops.ones(2)))
    np.testing.assert_allclose(inside, [value, value])


def test_made_and_read_in_one_compiled_function_it_keeps_its_value():
    def program(x):
        w = bl.Normal(x, 1.0, seed=3)
        return w.value - w.value, w.value

    difference, value = jit(program)(ops.zeros(2))
    np.testing.assert_array_equal(array(difference), np.zeros(2))
    np.testing.assert_array_equal(
        array(value), array(bl.Normal([0.0, 0.0], 1.0, seed=3))
    )


@pytest.mark.skipif(BACKEND != "jax", reason="Eager gradients are traced on JAX.")
def test_first_read_in_an_eager_gradient_it_keeps_its_value():
    import jax

    w = bl.Normal(0.0, 1.0)
    gradient = jax.grad(lambda t: t * w.value)(1.0)
    assert float(gradient) == float(w)


# Mapping over parameters, on JAX.


@pytest.mark.skipif(BACKEND != "jax", reason="Pytrees are mapped over on JAX.")
def test_mapped_over_a_scalar_parameter_the_batch_axes_stay_apart():
    import jax

    scales = np.array([1.0, 2.0, 3.0], "float32")
    expected = np.broadcast_to(scales[:, None], (3, 3))

    def normal(scale):
        return bl.Normal(np.zeros(3), scale, value=np.zeros(3))

    for mapped in (lambda f: lambda x: jax.lax.map(f, x), jax.vmap):
        np.testing.assert_array_equal(array(mapped(normal)(scales).stddev()), expected)
        mixture = mapped(mixture_of)(scales)
        assert mixture.batch_shape == (3, 4)
        np.testing.assert_allclose(
            array(mixture.mean()), np.broadcast_to(0.5 * scales[:, None], (3, 4))
        )
    restored = jax.vmap(lambda d: d.log_prob(0.0))(bl.distributions.Normal(scales, 2.0))
    np.testing.assert_allclose(
        array(restored), array(bl.distributions.Normal(scales, 2.0).log_prob(0.0))
    )


def mixture_of(scale):
    return bl.distributions.MixtureSameFamily(
        bl.distributions.Categorical(probs=[0.5, 0.5]),
        NORMAL(scale * np.broadcast_to([0.0, 1.0], (4, 2)).astype("float32"), 1.0),
    )


# Iteration, and lists of variables.


def test_iteration_ends_and_scalars_refuse_it():
    w = variable(sample_shape=2)
    rows = list(w)
    assert len(rows) == 2
    np.testing.assert_array_equal(np.stack([array(row) for row in rows]), array(w))
    first, *_, last = variable()
    assert (float(first), float(last)) == (array(variable())[0], array(variable())[2])
    with pytest.raises(TypeError, match="scalar"):
        iter(bl.Normal(0.0, 1.0))


def test_lists_of_variables_are_stacked_by_the_backend_and_by_keras():
    w = variable()
    expected = np.stack([array(w), array(w)])
    for stacked in (native_stack([w, w]), ops.stack([w, w])):
        np.testing.assert_array_equal(array(stacked), expected)
    np.testing.assert_array_equal(array(ops.concatenate([w, w])), expected.ravel())


def native_stack(values):
    if BACKEND == "torch":
        import torch

        flat = torch.cat(values, dim=0)
        assert flat.shape == (6,)
        return torch.stack(values)
    if BACKEND == "jax":
        import jax.numpy

        return jax.numpy.stack(values)
    import tensorflow

    return tensorflow.stack(values)


def test_all_arguments_but_the_distribution_have_names():
    with pytest.raises(TypeError, match="positional"):
        bl.RandomVariable(NORMAL(0.0, 1.0), 2.0)


def test_sample_and_log_prob_belong_together():
    w = variable()
    sample, log_prob = w.sample_and_log_prob(5, seed=2)
    np.testing.assert_array_equal(array(sample), array(w.sample(5, seed=2)))
    np.testing.assert_array_equal(array(log_prob), array(w.log_prob(sample)))
