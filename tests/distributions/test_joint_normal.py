"""What the table does not ask of JointNormal: shared matrices, marginals, rounding."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import linalg
from bayesian_layers.distributions import JointNormal, Normal
from tests.differentiation import jit, values_and_grad
from tests.statistics import assert_mean

RNG = np.random.default_rng(0)
LOC = RNG.normal(size=(4, 3)).astype("float32")
FACTOR = RNG.normal(size=(3, 4, 4))
COVARIANCE = (FACTOR @ np.swapaxes(FACTOR, -1, -2) + np.eye(4)).astype("float32")
SHARED = COVARIANCE[0]


def array(x):
    return ops.convert_to_numpy(x).astype("float64")


def log_prob(values, covariance):
    covariance = np.broadcast_to(covariance, (3, 4, 4))
    return sum(
        stats.multivariate_normal(LOC[:, u], covariance[u]).logpdf(values[..., u])
        for u in range(3)
    )


@pytest.mark.parametrize("covariance", [SHARED, COVARIANCE], ids=["one", "each"])
def test_samples_have_one_density_each_and_their_covariance(covariance):
    normal = JointNormal(LOC, covariance)
    assert (normal.batch_shape, normal.event_shape) == ((), (4, 3))
    draws = normal.sample(20_000, seed=1)
    actual = array(normal.log_prob(draws))
    assert actual.shape == (20_000,)
    draws = array(draws)
    np.testing.assert_allclose(actual, log_prob(draws, covariance), rtol=1e-4)
    deviation = draws - LOC
    products = np.einsum("smu,snv->suvmn", deviation, deviation)
    # Different units are independent.
    expected = np.eye(3)[:, :, None, None] * np.broadcast_to(covariance, (3, 4, 4))
    scale = products.std(axis=0)
    assert_mean(products, expected, detect=0.15 * scale)
    np.testing.assert_array_equal(
        array(normal.covariance()), np.broadcast_to(covariance, (3, 4, 4))
    )


def test_rebuilt_without_a_look_it_may_have_a_matrix_without_units():
    loc, matrix = ops.convert_to_tensor(LOC), ops.convert_to_tensor(SHARED)
    normal = JointNormal.rebuild({"loc": loc, "covariance_matrix": matrix})
    assert normal.batch_shape == ()
    np.testing.assert_allclose(
        array(normal.log_prob(LOC)), log_prob(LOC, SHARED), rtol=1e-5
    )


def test_samples_and_units_that_share_a_matrix_factorize_it_once(monkeypatch):
    sizes = []
    factorize = linalg._factorize
    monkeypatch.setattr(
        linalg, "_factorize", lambda m: sizes.append(m.shape) or factorize(m)
    )
    JointNormal(LOC, SHARED).log_prob(np.zeros((5, 4, 3), "float32"))
    assert [tuple(size) for size in sizes] == [(1, 4, 4)]


@pytest.mark.parametrize("covariance", [SHARED, COVARIANCE], ids=["one", "each"])
def test_marginals_are_those_of_the_elements(covariance):
    marginal = JointNormal(LOC, covariance).marginal()
    assert isinstance(marginal, Normal)
    variances = np.diagonal(np.broadcast_to(covariance, (3, 4, 4)), axis1=1, axis2=2)
    np.testing.assert_array_equal(array(marginal.loc), LOC)
    np.testing.assert_allclose(array(marginal.variance()), variances.T, rtol=1e-6)


def test_variances_that_rounding_left_negative_are_next_to_nothing():
    covariance = np.diag([1.0, -1e-7, 0.0]).astype("float32")

    def deviations(covariance):
        return JointNormal.rebuild(
            {"loc": ops.zeros((3, 2)), "covariance_matrix": covariance[None]}
        ).stddev()

    values, (gradient,) = values_and_grad(deviations, covariance)
    np.testing.assert_allclose(values[:, 0], [1.0, 0.0, 0.0], atol=1e-15)
    assert np.isfinite(gradient).all()
    assert np.all(array(JointNormal(np.zeros((3, 2)), covariance).stddev()) > 0.0)


def test_a_list_and_a_variable_are_covariances():
    listed = JointNormal(LOC.tolist(), SHARED.tolist())
    variable = keras.Variable(SHARED[None])
    over_variable = JointNormal(LOC, variable)
    for normal in (listed, over_variable):
        np.testing.assert_allclose(
            array(normal.log_prob(LOC)), log_prob(LOC, SHARED), rtol=1e-5
        )
    variable.assign(COVARIANCE[1:2])
    np.testing.assert_allclose(
        array(over_variable.log_prob(LOC)), log_prob(LOC, COVARIANCE[1]), rtol=1e-5
    )


def test_singular_covariances_have_samples_and_densities():
    normal = JointNormal(np.zeros((4, 1)), np.ones((4, 4)))
    draw = array(normal.sample(seed=1))
    np.testing.assert_allclose(draw, np.broadcast_to(draw[:1], (4, 1)), atol=1e-2)
    assert np.isfinite(array(normal.log_prob(draw)))
    certain = JointNormal(LOC, np.zeros((4, 4)))
    np.testing.assert_allclose(array(certain.sample(seed=1)), LOC, atol=1e-6)


BEYOND_REPAIR = np.array([[1.0, 2.0], [2.0, 1.0]], "float32")


@pytest.mark.parametrize("method", ["sample", "entropy", "log_prob"])
def test_beyond_repair_it_raises_where_there_are_numbers(method):
    normal = JointNormal(np.zeros((2, 1)), BEYOND_REPAIR)
    arguments = [np.zeros((2, 1))] if method == "log_prob" else []
    with pytest.raises(ValueError, match="`covariance_matrix` to be positive definite"):
        getattr(normal, method)(*arguments)


BAD = [
    (LOC, np.tril(SHARED), "symmetric"),
    (LOC, np.full((4, 4), np.nan), "symmetric"),
    (LOC, np.eye(3), r"\[n, n\] or \[units, n, n\].*\(4, 3\).*\(1, 3, 3\)"),
    (LOC, COVARIANCE[:2], r"loc.shape=\(4, 3\).*\(2, 4, 4\)"),
    (LOC, SHARED[:, :3], r"\(1, 4, 3\)"),
    (LOC[0], SHARED, "`loc` to have at least 2"),
    (LOC, keras.Variable(SHARED), "`covariance_matrix` to have at least 3"),
]


@pytest.mark.parametrize(("loc", "covariance", "message"), BAD)
def test_bad_arguments(loc, covariance, message):
    with pytest.raises(ValueError, match=message):
        JointNormal(loc, covariance)
    with pytest.raises(ValueError, match="equal numbers of rows and of units"):
        JointNormal(LOC, SHARED).kl_divergence(JointNormal(LOC[:3], np.eye(3)))


def test_the_divergence_of_one_matrix_from_several_is_a_sum_over_units():
    one, several = JointNormal(LOC, SHARED), JointNormal(1.0 - LOC, COVARIANCE)
    for q, p in [(one, several), (several, one), (one, one)]:
        parts = []
        for u in range(3):
            vectors = [
                bl.distributions.MultivariateNormalTriL(
                    array(d.loc)[:, u], np.linalg.cholesky(array(d.covariance()[u]))
                )
                for d in (q, p)
            ]
            parts.append(float(vectors[0].kl_divergence(vectors[1])))
        np.testing.assert_allclose(
            float(q.kl_divergence(p)), sum(parts), rtol=1e-4, atol=1e-4
        )


def test_a_random_variable_crosses_a_compiled_function():
    def program(loc):
        normal = bl.JointNormal(loc, SHARED, seed=1)
        return normal.log_prob(ops.zeros((4, 3))), normal.value

    actual, value = jit(program)(ops.convert_to_tensor(LOC))
    np.testing.assert_allclose(
        array(actual), log_prob(np.zeros((4, 3)), SHARED), rtol=1e-5
    )
    assert tuple(value.shape) == (4, 3)
