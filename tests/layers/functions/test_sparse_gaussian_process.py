"""Sparse Gaussian processes, against the exact ones and closed forms."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.functions.processes import (
    NEW,
    NOISE,
    X,
    Y,
    array,
    expected_log_likelihood,
    gradients,
    joint_log_density,
)

Z = X[:5]


def sparse(units=2, num_inducing=5, **kwargs):
    kwargs = {"inducing_inputs": Z, **kwargs}
    return bl.layers.SparseGaussianProcess(units, num_inducing, **kwargs)


def randomize(layer, seed=1):
    """Gives q(u) and the inducing inputs other numbers."""
    rng = np.random.default_rng(seed)
    weight = layer.random_weights["inducing_values"]
    for variable in weight.variables.values():
        variable.assign(0.3 * rng.normal(size=variable.shape))
    return layer


def exact(**kwargs):
    return bl.layers.GaussianProcess(
        2,
        noise_variance=NOISE,
        conditional_inputs=X,
        conditional_outputs=Y,
        with_noise=False,
        **kwargs,
    )


def log_marginal_likelihood():
    squares = np.sum(np.square(X[:, None].astype("float64") - X[None]), axis=-1)
    matrix = np.exp(-0.5 * squares) + NOISE * np.eye(len(X))
    return joint_log_density(0.0, matrix, Y)


@pytest.mark.parametrize("whiten", [True, False])
def test_with_inducing_points_at_the_data_it_is_the_exact_process(whiten):
    layer = sparse(num_inducing=len(X), inducing_inputs=X, whiten=whiten)
    bound = layer.condition(X, Y, NOISE)
    expected = exact()(NEW)
    found = layer(NEW)
    np.testing.assert_allclose(array(found.mean()), array(expected.mean()), atol=2e-3)
    np.testing.assert_allclose(
        array(found.variance()), array(expected.variance()), atol=2e-3
    )
    np.testing.assert_allclose(array(bound), log_marginal_likelihood(), atol=0.02)


@pytest.mark.parametrize("mean_fn", [None, "identity"])
@pytest.mark.parametrize("whiten", [True, False])
def test_the_bound_is_reached_by_its_optimum_and_below_the_evidence(whiten, mean_fn):
    layer = sparse(whiten=whiten, mean_fn=mean_fn)
    bound = array(layer.condition(X, Y, NOISE))
    expected = expected_log_likelihood(layer(X), Y, NOISE) - array(bl.total_kl(layer))
    np.testing.assert_allclose(bound, expected, rtol=1e-4)
    if mean_fn is None:
        assert bound < log_marginal_likelihood()
    randomize(layer)
    other = expected_log_likelihood(layer(X), Y, NOISE) - array(bl.total_kl(layer))
    assert other < bound


def test_independent_inducing_values_have_the_best_of_their_kind():
    """The derivatives of the evidence bound by q vanish there."""
    layer = sparse(
        inducing_values_initializer="trainable_normal",
        covariance_fn=bl.covariances.ExponentiatedQuadratic(trainable=False),
        trainable_inducing_inputs=False,
    )
    layer.condition(X, Y, NOISE)

    def bound():
        f = layer(X)
        squares = ops.square(Y - f.mean()) + f.variance()
        return -0.5 * ops.sum(squares) / NOISE - bl.total_kl(layer)

    _, found = gradients(layer, bound)
    assert sorted(found) == ["inducing_values", "inducing_values_scale"]
    for gradient in found.values():
        np.testing.assert_allclose(gradient, 0.0, atol=2e-3)


def test_the_collapsed_bound_is_that_of_the_matrices():
    layer = sparse()
    value = layer.collapsed_bound(X, Y, NOISE)
    x, z = X.astype("float64"), Z.astype("float64")

    def kernel(a, b):
        return np.exp(-0.5 * np.sum(np.square(a[:, None] - b[None]), axis=-1))

    low_rank = kernel(x, z) @ np.linalg.solve(kernel(z, z), kernel(z, x))
    expected = joint_log_density(0.0, low_rank + NOISE * np.eye(len(x)), Y)
    expected -= 2 * np.trace(kernel(x, x) - low_rank) / (2.0 * NOISE)
    np.testing.assert_allclose(array(value), expected, rtol=1e-4)


@pytest.mark.parametrize("mean_fn", [None, "identity"])
def test_whitened_and_unwhitened_values_say_the_same(mean_fn):
    whitened = randomize(sparse(mean_fn=mean_fn)) if False else sparse(mean_fn=mean_fn)
    whitened.condition(X, Y, NOISE)
    plain = sparse(mean_fn=mean_fn, whiten=False)
    plain.condition(X, Y, NOISE)
    for layer in (whitened, plain):
        assert len(layer.losses) == 1
    np.testing.assert_allclose(
        array(whitened(NEW).mean()), array(plain(NEW).mean()), atol=1e-4
    )
    np.testing.assert_allclose(
        array(whitened(NEW).variance()), array(plain(NEW).variance()), atol=1e-4
    )
    np.testing.assert_allclose(
        array(bl.total_kl(whitened)), array(bl.total_kl(plain)), rtol=1e-3
    )


def _numpy_reference(layer, new):
    """q(f) of a whitened layer with one lengthscale of 1, by explicit inverses."""
    weight = layer.random_weights["inducing_values"]
    loc = array(weight.posterior.mean()).astype("float64")
    tril = array(weight.posterior.scale_tril).astype("float64")

    def kernel(a, b):
        return np.exp(-0.5 * np.sum(np.square(a[:, None] - b[None]), axis=-1))

    z, new = Z.astype("float64"), new.astype("float64")
    root = np.linalg.cholesky(kernel(z, z))
    weights = kernel(new, z) @ np.linalg.inv(kernel(z, z))
    mean = np.stack([weights @ root @ m for m in loc], axis=1)
    prior = kernel(new, new) - weights @ kernel(z, new)
    covariances = []
    for factor in tril:
        spread = weights @ root @ factor
        covariances.append(prior + spread @ spread.T)
    return mean, np.stack(covariances)


def test_the_distribution_is_that_of_the_matrices():
    layer = sparse()
    layer.build(X.shape)
    randomize(layer)
    mean, covariances = _numpy_reference(layer, NEW)
    f = layer(NEW)
    np.testing.assert_allclose(array(f.mean()), mean, atol=1e-4)
    variance = np.diagonal(covariances, axis1=1, axis2=2).T
    np.testing.assert_allclose(array(f.variance()), variance, atol=1e-4)
    layer.full_covariance = True
    joint = layer(NEW).distribution
    np.testing.assert_allclose(array(joint.mean()), mean, atol=1e-4)
    np.testing.assert_allclose(array(joint.covariance()), covariances, atol=1e-4)


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("separate_inducing", [True, False])
def test_units_of_their_own_are_layers_of_their_own(separate_inducing, whiten):
    points = np.stack([Z, X[5:10]]) if separate_inducing else Z
    mean_fn = keras.layers.Dense(2, kernel_initializer="ones")
    layer = sparse(
        covariance_fn=bl.covariances.ExponentiatedQuadratic(
            [0.8, 1.5], batch_shape=(2,)
        ),
        separate_inducing=separate_inducing,
        inducing_inputs=points,
        whiten=whiten,
        mean_fn=mean_fn,
    )
    layer.build(X.shape)
    randomize(layer)
    f = layer(NEW)
    values = [
        array(v) for v in layer.random_weights["inducing_values"].variables.values()
    ]
    divergence = 0.0
    for unit, amplitude in enumerate((0.8, 1.5)):
        alone = sparse(
            1,
            covariance_fn=bl.covariances.ExponentiatedQuadratic(amplitude),
            inducing_inputs=points[unit] if separate_inducing else points,
            whiten=whiten,
            mean_fn=keras.layers.Dense(1, kernel_initializer="ones"),
        )
        alone.build(X.shape)
        weight = alone.random_weights["inducing_values"]
        for variable, value in zip(weight.variables.values(), values, strict=True):
            variable.assign(value[unit : unit + 1])
        column = slice(unit, unit + 1)
        expected = alone(NEW)
        np.testing.assert_allclose(
            array(f.mean())[:, column], array(expected.mean()), atol=1e-4
        )
        np.testing.assert_allclose(
            array(f.variance())[:, column], array(expected.variance()), atol=1e-4
        )
        divergence += array(bl.total_kl(alone))
    np.testing.assert_allclose(array(bl.total_kl(layer)), divergence, rtol=1e-4)


def test_inputs_of_more_axes_are_flattened():
    layer = sparse()
    layer.build(X.shape)
    randomize(layer)
    f = layer(X.reshape(3, 4, 2))
    assert tuple(f.shape) == (3, 4, 2)
    np.testing.assert_allclose(
        array(f.variance()).reshape(12, 2), array(layer(X).variance()), atol=1e-6
    )
    layer.full_covariance = True
    with pytest.raises(ValueError, match=r"expects inputs \[n, D\]"):
        layer(X.reshape(3, 4, 2))


def test_the_divergence_stays_while_hyperparameters_train():
    layer = sparse(whiten=False)
    layer.build(X.shape)
    for variable in layer.random_weights["inducing_values"].variables.values():
        variable.trainable = False
    assert len(layer.losses) == 1
    _, found = gradients(layer, lambda: bl.total_kl(layer))
    assert np.all(found["lengthscale"] != 0.0)
    layer.covariance_fn.trainable = False
    layer.inducing_inputs.trainable = False
    assert not layer.losses


def test_a_random_hyperparameter_has_its_own_divergence():
    layer = sparse(
        covariance_fn=bl.covariances.ExponentiatedQuadratic(
            lengthscale="trainable_log_normal"
        ),
        seed=1,
    )
    f = layer(X)
    assert len(layer.losses) == 2
    total = sum(array(loss) for loss in layer.losses)
    np.testing.assert_allclose(total, array(bl.total_kl(layer)), rtol=1e-5)
    assert np.max(np.abs(array(f.variance()) - array(layer(X).variance()))) >= 0.0
    with bl.tape() as tape:
        layer(X)
    names = [name.split("/", 1)[1] for name in tape if "/" in name]
    assert any(name.endswith("lengthscale") for name in names)


def test_the_scale_of_the_divergence_is_that_of_the_model():
    model = keras.Sequential([keras.Input((2,)), sparse()])
    randomize(model.layers[0])
    bl.scale_kl(model, dataset_size=10)
    (loss,) = model.losses
    np.testing.assert_allclose(array(loss), array(bl.total_kl(model)) / 10, rtol=1e-5)


def test_a_tape_has_the_inducing_values_and_the_function():
    layer = sparse(name="gp")
    layer.build(X.shape)
    randomize(layer)
    with bl.tape() as tape:
        f = layer(NEW)
    assert list(tape) == ["gp/inducing_values", "gp"]
    values = tape["gp/inducing_values"].value
    # Given u the function is what the prior leaves: less than under q.
    with bl.condition({"gp/inducing_values": values}):
        again = layer(NEW)
    np.testing.assert_allclose(array(f.mean()), array(again.mean()), atol=1e-6)
    assert np.all(array(f.variance()) < array(layer(NEW).variance()))


def test_memory_is_linear_in_the_batch():
    if keras.backend.backend() != "jax":
        pytest.skip("Only JAX tells the sizes of all arrays.")
    import jax

    layer = sparse()
    layer.build(X.shape)
    n = 1000
    jaxpr = jax.make_jaxpr(lambda x: layer.distribution(x).variance())(
        np.ones((n, 2), "float32")
    )
    sizes = [int(np.prod(v.aval.shape)) for e in jaxpr.jaxpr.eqns for v in e.outvars]
    assert max(sizes) <= 2 * 5 * n


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_inducing": 0}, "`num_inducing` should be a positive integer"),
        ({"inducing_inputs": "trainable_normal"}, "they have no distribution"),
        (
            {"inducing_values_initializer": "zeros"},
            "`inducing_values_initializer` should be a distribution",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sparse(**arguments)


def test_bad_shapes_and_posteriors_are_refused():
    with pytest.raises(ValueError, match=r"should be an array of shape \(5, 3\)"):
        sparse().build((None, 3))
    with pytest.raises(ValueError, match="that is normal, with independent units"):
        sparse(inducing_values_initializer="trainable_multivariate_normal").build(
            (None, 2)
        )
    with pytest.raises(ValueError, match="`noise_variance` should be a positive"):
        sparse().condition(X, Y, 0.0)
    with pytest.raises(ValueError, match=r"`y` of shape \[N, 2\]"):
        sparse().condition(X, Y[:, :1], NOISE)
