"""Layers in programs: names, roles, log joints."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.differentiation import jit, run

X = np.random.default_rng(0).normal(size=(6, 5, 4)).astype("float32")


def array(x):
    return ops.convert_to_numpy(x)


def number(x):
    return float(array(x))


def normal(f):
    return bl.distributions.Normal(f, 0.5)


@functools.cache
def sequence_model():
    """A model with recurrence, attention and a layer that is used twice."""
    inputs = keras.Input((5, 4))
    shared = bl.layers.DenseFlipout(4, name="shared")
    lstm = bl.layers.LSTMReparameterization(4, return_sequences=True, name="lstm")
    attention = bl.layers.MultiHeadAttentionReparameterization(2, 2, name="attention")
    x = lstm(shared(inputs))
    x = keras.layers.Flatten()(shared(attention(x, x)))
    outputs = bl.layers.DenseReparameterization(1, name="last")(x)
    return keras.Model(inputs, outputs, name="model")


def dense_model(regularizer="normal_kl_divergence"):
    layer = bl.layers.DenseFlipout(
        1, use_bias=False, name="dense", kernel_regularizer=regularizer
    )
    return keras.Sequential([keras.Input((3,)), layer], name="model")


def test_each_weight_of_a_model_is_listed_once_with_its_prior():
    model = sequence_model()
    latent = bl.programs.latent_variables(model, (X,))
    attention = [f"attention/{p}" for p in ("query", "key", "value")]
    names = [
        "shared/kernel",
        "lstm/lstm_cell/kernel",
        "lstm/lstm_cell/recurrent_kernel",
        "lstm/lstm_cell/bias",
        *(f"{part}/kernel" for part in attention),
        "attention/attention_output/kernel",
        "last/kernel",
    ]
    assert list(latent) == [f"model/{name}" for name in names]
    for variable in latent.values():
        np.testing.assert_array_equal(array(variable.stddev()), 1.0)
    assert sum(v.numpy().size for v in latent.values()) == sum(
        weight.location.numpy().size
        for layer in model._flatten_layers()
        if isinstance(layer, bl.layers.RandomWeights)
        for weight in layer.random_weights.values()
    )


def test_log_joint_of_a_model_is_that_of_its_weights_and_targets():
    model = sequence_model()
    y = X[:, 0, :1]
    values = bl.programs.latent_variables(model, (X,), seed=3)
    values = {name: 0.3 * variable.value for name, variable in values.items()}

    def function(*args):
        with bl.condition(dict(zip(values, args, strict=True))):
            return model(X)

    f = run(function, *values.values())
    expected = stats.norm.logpdf(y, f, 0.5).sum() + sum(
        stats.norm.logpdf(array(v)).sum() for v in values.values()
    )
    log_joint = bl.make_log_joint_fn(model, (X, y), likelihood=normal)
    compiled = jit(lambda *args: log_joint(**dict(zip(values, args, strict=True))))
    np.testing.assert_allclose(number(compiled(*values.values())), expected, rtol=1e-4)
    # The compiled function has left nothing in the model.
    assert np.all(np.isfinite(array(model(X))))
    # Two chains.
    scaled = {name: ops.stack([v, 0.0 * v]) for name, v in values.items()}
    results = array(log_joint.over_chains(**scaled))
    np.testing.assert_allclose(results[0], expected, rtol=1e-4)
    zeros = [0.0 * v for v in values.values()]
    np.testing.assert_allclose(results[1], number(compiled(*zeros)), rtol=1e-4)


def test_targets_of_a_head_are_known_by_its_name():
    x, y = X[:, 0, :3], X[:, 0, 3]
    model = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseFlipout(2), bl.layers.Normal(name="head")],
        name="model",
    )
    program = bl.programs.BoundProgram(model, (x, y))
    (name,) = program.observed
    assert (name, program.observed[name].shape) == ("model/head", (6, 1))
    with pytest.raises(ValueError, match="no random variable.*likelihood"):
        bl.make_log_joint_fn(dense_model(), (x, y))
    with pytest.raises(ValueError, match=r"\(5,\).*\(6, 1\)"):
        bl.make_log_joint_fn(model, (x, y[:5]))
    with pytest.raises(TypeError, match="should return a distribution"):
        bl.make_log_joint_fn(dense_model(), (x, y), likelihood=lambda f: f)


# Roles.


def test_a_layer_draws_from_its_prior_as_a_model_and_from_its_posterior_as_a_guide():
    model = dense_model(bl.regularizers.NormalKLDivergence(mean=7.0, stddev=0.5))
    x = np.eye(3, dtype="float32")
    for role, loc in (("prior", 7.0), ("posterior", array(model.layers[0].kernel))):
        with bl.role(role), bl.tape() as tape:
            model(x)
        (kernel,) = tape.values()
        assert kernel.name == "model/dense/kernel"
        np.testing.assert_array_equal(array(kernel.mean()), np.full((3, 1), loc))
    # Without a tape, too: none of the posteriors is as far out.
    with bl.role("prior"):
        assert np.all(array(model(x)) > 3.0)
    with bl.role("prior", model):
        assert np.all(model.predict(x, verbose=0) > 3.0)
    assert np.all(model.predict(x, verbose=0) < 3.0)


def test_the_innermost_role_counts_and_is_that_of_the_named_model():
    first, second = dense_model(), dense_model()
    x = np.eye(3, dtype="float32")
    with bl.role("prior"), bl.role("posterior", second), bl.tape() as tape:
        first(x)
    assert number(tape["model/dense/kernel"].stddev()[0, 0]) == 1.0
    with bl.role("prior"), bl.role("posterior", second), bl.tape() as tape:
        second(x)
    assert number(tape["model/dense/kernel"].stddev()[0, 0]) < 0.1
    with bl.role("prior"), bl.block(), bl.tape() as tape:
        first(x)
    assert number(tape["model/dense/kernel"].stddev()[0, 0]) < 0.1
    with pytest.raises(ValueError, match='"prior" or "posterior"'), bl.role("guide"):
        pass


@pytest.mark.parametrize("regularizer", [None, "log_uniform_kl_divergence"])
def test_a_weight_without_a_proper_prior_is_named(regularizer):
    model = dense_model(regularizer)
    with pytest.raises(ValueError, match="'model/dense/kernel' has no prior"):
        bl.programs.latent_variables(model, (X[:, 0, :3],))


def test_priors_of_every_kind_have_the_shape_of_the_weight():
    x = X[:, 0, :3]
    for regularizer in (
        "normal_mixture_kl_divergence",
        "normal_kl_divergence_with_tied_mean",
        "normal_empirical_bayes_kl_divergence",
        "trainable_normal_kl_divergence_stddev",
        bl.regularizers.KLDivergence(
            bl.distributions.Laplace(np.zeros((3, 1), "float32"), 2.0)
        ),
    ):
        model = dense_model(regularizer)
        (kernel,) = bl.programs.latent_variables(model, (x,)).values()
        assert tuple(kernel.shape) == (3, 1)
        assert np.isfinite(number(ops.sum(kernel.log_prob(kernel.value))))


def test_random_parameters_of_a_posterior_are_no_part_of_the_model():
    layer = bl.layers.DenseReparameterization(
        1,
        name="dense",
        kernel_initializer=bl.initializers.TrainableNormal(
            mean_initializer=bl.initializers.TrainableNormal()
        ),
    )
    layer.build((None, 3))
    with bl.role("prior"), bl.tape() as model:
        layer(X[:, 0, :3])
    with bl.tape() as guide:
        layer(X[:, 0, :3])
    assert list(model) == ["dense/kernel"]
    assert set(guide) > {"dense/kernel"}


def test_an_output_layer_with_a_prior_draws_from_it_as_a_model():
    prior = bl.distributions.Normal(5.0, 0.1)
    layer = bl.layers.Normal(units=2, prior=prior, name="latent")
    x = X[:, 0]
    layer(x)
    with bl.role("prior"), bl.tape() as tape:
        layer(x)
    np.testing.assert_array_equal(array(tape["latent"].mean()), np.full((6, 2), 5.0))
    with bl.tape() as tape:
        layer(x)
    assert np.all(array(tape["latent"].mean()) < 5.0)


# Functions.


def test_a_process_enters_the_log_joint_given_its_inducing_values():
    z = np.array([[-4.0], [0.0], [4.0]], "float32")
    x = np.array([[-3.0], [-1.0], [2.0], [3.0]], "float32")
    y = np.array([[0.0], [1.0], [2.0], [1.0]], "float32")
    process = bl.layers.SparseGaussianProcess(1, 3, inducing_inputs=z, name="f")
    likelihood = bl.layers.PoissonLikelihood(name="y")
    model = keras.Sequential([keras.Input((1,)), process, likelihood], name="model")
    values = {
        "model/f/inducing_values": np.array([[0.3, -0.5, 1.0]], "float32"),
        "model/f": np.array([[0.1], [0.2], [-0.3], [0.4]], "float32"),
    }
    assert list(bl.programs.latent_variables(model, (x, y))) == list(values)
    # The values at z are L v; the conditional of f given them, from NumPy.
    v, f = values.values()
    tril = np.linalg.cholesky(np.exp(-0.5 * (z - z.T) ** 2))
    a = np.linalg.solve(tril, np.exp(-0.5 * (z - x.T) ** 2))
    scale = np.sqrt(1.0 - (a**2).sum(axis=0))
    expected = (
        stats.norm.logpdf(v).sum()
        + stats.norm.logpdf(f[:, 0], (v @ a)[0], scale).sum()
        + stats.poisson.logpmf(y, np.exp(f)).sum()
    )
    result = bl.make_log_joint_fn(model, (x, y))(**values)
    np.testing.assert_allclose(number(result), expected, rtol=1e-4)


def test_an_exact_process_is_drawn_and_conditioned_by_name():
    x = np.linspace(-1.0, 1.0, 3, dtype="float32")[:, None]
    process = bl.layers.GaussianProcess(1, name="f")

    def program(x):
        f = process(x)
        return bl.Normal(ops.convert_to_tensor(f)[:, 0], 0.1, name="y")

    f, y = np.array([0.1, 0.4, 0.2]), np.array([0.0, 0.5, 0.1], "float32")
    expected = stats.multivariate_normal.logpdf(
        f, np.zeros(3), np.exp(-0.5 * (x - x.T) ** 2)
    )
    expected += stats.norm.logpdf(y, f, 0.1).sum()
    result = bl.make_log_joint_fn(program)(x, f=f[:, None], y=y)
    np.testing.assert_allclose(number(result), expected, rtol=1e-3)


def test_a_layer_that_shows_its_mean_is_latent_all_the_same():
    layer = bl.layers.Normal(units=1, convert="mean", name="head")
    x = X[:, 0]
    layer(x)
    with pytest.raises(LookupError, match="'head'"):
        bl.make_log_joint_fn(layer)(x)
