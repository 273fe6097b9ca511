"""What would be silently wrong is refused, or warned of, in words that help."""

import functools
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import array, make

X = np.ones((4, 3), "float32")


def built(cls=bl.layers.DenseFlipout, **kwargs):
    layer = cls(2, **kwargs)
    layer.build((None, 3))
    return layer


# Dtypes.


@pytest.mark.parametrize(
    "name",
    [
        "DenseReparameterization",
        "DenseFlipout",
        "DenseLocalReparameterization",
        "EinsumDenseFlipout",
        "EmbeddingReparameterization",
        "LSTMFlipout",
    ],
)
@pytest.mark.parametrize("policy", ["int8_from_float32", "int8_from_mixed_bfloat16"])
def test_quantized_dtype_policies_are_refused(name, policy):
    with pytest.raises(ValueError, match=f"cannot be quantized.*dtype='{policy}'"):
        make(name, dtype=policy)


def test_quantized_parts_are_refused_when_they_are_made():
    layer = make("MultiHeadAttentionFlipout", dtype="int8_from_float32")
    with pytest.raises(ValueError, match="cannot be quantized"):
        layer.build((None, 5, 2), (None, 5, 2))


# Divergences by default.


@pytest.mark.parametrize(
    "cls",
    [
        bl.layers.DenseReparameterization,
        bl.layers.DenseFlipout,
        bl.layers.DenseLocalReparameterization,
    ],
)
def test_a_random_bias_has_the_default_prior_unless_told_otherwise(cls):
    layer = built(cls, bias_initializer="trainable_normal")
    weight = layer.random_weights["bias"]
    assert type(weight.prior).__name__ == "Normal"
    assert len(layer.losses) == 2
    # KL(Normal(0, 0.0486) || Normal(0, 1)) = 2.5256 for each element.
    np.testing.assert_allclose(array(layer.losses[1]), 2 * 2.5256, rtol=1e-4)
    layer = built(cls, bias_initializer="trainable_normal", bias_regularizer=None)
    assert layer.random_weights["bias"].prior is None
    assert len(layer.losses) == 1
    assert len(built(cls).losses) == 1


# Regularizers.


def test_the_divergence_without_a_prior_is_refused():
    for name in ("kl_divergence", "KLDivergence"):
        with pytest.raises(ValueError, match='needs a prior.*"normal_kl_divergence"'):
            bl.regularizers.get(name)
    with pytest.raises(ValueError, match="needs a prior"):
        bl.layers.DenseFlipout(2, kernel_regularizer="kl_divergence")


def test_a_distribution_as_a_regularizer_is_refused():
    prior = bl.distributions.Normal(0.0, 1.0)
    with pytest.raises(ValueError, match=r"`bl.regularizers.KLDivergence\(prior\)`"):
        bl.layers.DenseFlipout(2, kernel_regularizer=prior)


@pytest.mark.parametrize("weight", ["kernel", "bias"])
@pytest.mark.parametrize("penalty", ["l2", "l1", keras.regularizers.L2(0.5)])
def test_a_penalty_of_keras_on_a_random_weight_is_refused(weight, penalty):
    arguments = {
        f"{weight}_initializer": "trainable_normal",
        f"{weight}_regularizer": penalty,
    }
    with pytest.raises(
        ValueError, match=rf"{weight!r} needs a prior.*NormalKLDivergence\(stddev="
    ):
        bl.layers.DenseFlipout(2, **arguments)


def test_a_penalty_of_keras_on_a_known_weight_is_that_of_keras():
    layer = built(bias_initializer="ones", bias_regularizer=keras.regularizers.L2(0.5))
    np.testing.assert_allclose(array(layer.losses[1]), 0.5 * 2, rtol=1e-6)
    layer = built(kernel_initializer="ones", kernel_regularizer="l1")
    np.testing.assert_allclose(array(layer.losses[0]), 0.01 * 6, rtol=1e-6)


@pytest.mark.parametrize("weight", ["kernel", "bias"])
def test_a_function_of_random_variables_on_a_known_weight_says_so(weight):
    arguments = {
        f"{weight}_initializer": "ones",
        f"{weight}_regularizer": lambda w: ops.sum(w.distribution.variance()),
    }
    layer = built(**arguments)
    with pytest.raises(ValueError, match=f"{weight!r} expects a random variable"):
        _ = layer.losses


@pytest.mark.parametrize("size", [None, 0, -1, "all", True])
def test_the_size_of_the_data_set_is_a_positive_number(size):
    with pytest.raises(ValueError, match=f"positive number.*dataset_size={size}"):
        bl.scale_kl(built(), dataset_size=size)


# Initializers.


@pytest.mark.parametrize("weights", [list, lambda table: table])
def test_an_embedding_starts_at_a_table_that_is_given(weights):
    table = np.arange(8.0, dtype="float32").reshape(4, 2)
    given = [table] if weights is list else table
    layer = bl.layers.EmbeddingReparameterization(4, 2, weights=given, seed=1)
    np.testing.assert_array_equal(array(layer.embeddings), table)
    weight = layer.random_weights["embeddings"]
    np.testing.assert_array_equal(array(weight.posterior.mean()), table)
    np.testing.assert_allclose(array(weight.posterior.stddev()), 0.0486, rtol=1e-3)
    model = keras.Sequential([keras.Input((3,), dtype="int32"), layer])
    tokens = np.array([[3, 1, 3]])
    outputs = array(model(tokens))
    assert np.any(outputs != array(model(tokens)))
    with bl.weights(model, "mean"):
        np.testing.assert_allclose(array(model(tokens)), table[tokens], rtol=1e-6)


def test_a_scale_without_a_gradient_or_a_sign_is_refused():
    with pytest.raises(ValueError, match='no gradient.*"softplus"'):
        bl.initializers.TrainableNormal(stddev_constraint="positive")
    with pytest.raises(ValueError, match="`stddev` has to be positive"):
        bl.initializers.TrainableNormal(stddev_constraint=None)


@pytest.mark.parametrize("constraint", ["softplus", "exp"])
def test_a_scale_starts_at_the_same_number_by_every_parameterization(constraint):
    posterior = bl.initializers.TrainableNormal(stddev_constraint=constraint)
    layer = built(kernel_initializer=posterior)
    stddev = array(layer.random_weights["kernel"].posterior.stddev())
    np.testing.assert_allclose(stddev, 0.048587, rtol=1e-4)


def test_a_number_for_a_scale_is_refused_with_what_to_write():
    with pytest.raises(ValueError, match=r"`bl.initializers.NaturalConstant\(0.1\)`"):
        bl.initializers.TrainableNormal(stddev_initializer=0.1)


def of_a_closure():
    variable = keras.Variable(0.5)
    return lambda shape, dtype=None: bl.Normal(
        ops.zeros(shape) + variable, ops.ones(shape)
    )


def of_a_list():
    variables = {"all": [keras.Variable(0.5)]}
    return lambda shape, dtype=None: bl.Normal(
        ops.zeros(shape) + variables["all"][0], ops.ones(shape)
    )


def of_an_argument():
    def initialize(variable, shape, dtype=None):
        return bl.Normal(ops.zeros(shape) + variable, ops.ones(shape))

    return functools.partial(initialize, keras.Variable(0.5))


def of_an_attribute():
    class Initialize:
        def __init__(self):
            self.variable = keras.Variable(0.5)

        def __call__(self, shape, dtype=None):
            return bl.Normal(ops.zeros(shape) + self.variable, ops.ones(shape))

    return Initialize()


def of_the_result():
    variable = keras.Variable(np.zeros((3, 2), "float32"))
    return lambda shape, dtype=None: bl.distributions.Normal(variable, 1.0)


@pytest.mark.parametrize(
    "make_initializer",
    [of_a_closure, of_a_list, of_an_argument, of_an_attribute, of_the_result],
)
def test_an_initializer_that_reads_variables_is_refused(make_initializer):
    with pytest.raises(ValueError, match="neither follow nor train them"):
        built(kernel_initializer=make_initializer())


def test_an_initializer_that_returns_numbers_may_read_variables():
    variable = keras.Variable(0.5)
    layer = built(
        kernel_initializer=lambda shape, dtype=None: ops.zeros(shape) + variable,
        kernel_regularizer=None,
    )
    np.testing.assert_array_equal(array(layer.kernel), np.full((3, 2), 0.5))


def test_arguments_of_tfp_are_translated():
    for name in ("kernel_divergence_fn", "kernel_posterior_fn"):
        with pytest.raises(TypeError, match=rf"{name}.*bl.scale_kl\(model"):
            bl.layers.DenseFlipout(2, **{name: lambda *args: 0.0})


# Weights that are one value although they have a prior.


@pytest.mark.parametrize("name", ["DenseFlipout", "GRUReparameterization"])
def test_a_prior_of_a_known_weight_warns_once_with_what_to_write(name):
    shape = (3,) if name.startswith("Dense") else (5, 3)
    layer = getattr(bl.layers, name)(2, kernel_initializer="he_normal", kl_scale=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = keras.Sequential([keras.Input(shape), layer])
        model.compile("sgd", "mse")
        model.fit(np.ones((4, *shape)), np.ones((4, 2)), verbose=0)
        model(np.ones((4, *shape)))
    (warning,) = [w for w in caught if "one value" in str(w.message)]
    message = str(warning.message)
    assert "`bl.initializers.TrainableNormal('he_normal')`" in message
    assert "'kernel'" in message
    pasted = eval("bl.initializers.TrainableNormal('he_normal')")
    assert isinstance(pasted, bl.initializers.TrainableNormal)


def test_a_known_weight_without_a_prior_is_silent():
    # Warnings are errors here.
    layer = built(kernel_initializer="he_normal", kernel_regularizer=None)
    assert layer.losses == []
    assert layer.random_weights == {}
    np.testing.assert_array_equal(array(layer(X)), array(layer(X)))


# Equations.


def test_local_reparameterization_refuses_one_weight_for_a_sum_of_inputs():
    cls = bl.layers.EinsumDenseLocalReparameterization
    with pytest.raises(ValueError, match="sums the inputs over b.*EinsumDenseFlipout"):
        cls("abc,cd->ad", output_shape=2)
    assert ops.shape(cls("...c,cd->...d", output_shape=2)(X)) == (4, 2)
