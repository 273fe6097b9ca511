"""Cholesky factors that do not fail, and solutions by them."""

import numpy as np
import pytest
from keras import ops
from scipy import linalg as oracle
from scipy import stats

import bayesian_layers as bl
from bayesian_layers import backend, linalg
from tests.differentiation import (
    BACKEND,
    finite_difference,
    forward_derivative,
    has_float64,
    jit,
    second_derivative,
    value_and_grad,
    values_and_grad,
)

rng = np.random.default_rng(0)
FACTOR = np.tril(rng.normal(size=(2, 1, 4, 4)), -1) + 2.0 * np.eye(4)
MATRIX = FACTOR @ np.swapaxes(FACTOR, -1, -2)
COLUMNS = rng.normal(size=(3, 4, 5))


def array(x):
    return ops.convert_to_numpy(x)


def tensor(x):
    return ops.convert_to_tensor(np.asarray(x), "float32")


def kernel(x, lengthscale):
    """The squared exponential covariance of a Gaussian process."""
    distance = (x[:, None] - x[None, :]) / lengthscale
    return np.exp(-0.5 * np.square(distance)).astype("float32")


def test_a_definite_matrix_gets_no_jitter():
    np.testing.assert_allclose(array(linalg.cholesky(MATRIX)), FACTOR, rtol=1e-5)
    matrix = tensor(MATRIX)
    _, jitter = linalg._factorize(matrix)
    np.testing.assert_array_equal(array(jitter), np.zeros((2, 1)))


@pytest.mark.parametrize("lengthscale", [1e-3, 0.1, 1.0, 1e3])
def test_covariances_of_duplicated_inputs_have_factors(lengthscale):
    x = np.repeat(rng.uniform(-3.0, 3.0, 150), 2)
    matrix = kernel(x, lengthscale)
    tril = array(jit(linalg.cholesky)(tensor(matrix))).astype("float64")
    assert np.isfinite(tril).all()
    assert np.all(np.diagonal(tril) > 0.0)
    np.testing.assert_array_equal(tril, np.tril(tril))
    # The jitter is the smallest of the series that does.
    np.testing.assert_allclose(tril @ tril.T, matrix, atol=2e-3)


def test_two_thousand_inputs_in_float32():
    x = np.repeat(rng.uniform(-3.0, 3.0, 1000), 2)
    factor = jit(linalg.cholesky)
    for lengthscale in (1e-3, 1.0, 1e3):
        assert np.isfinite(array(factor(tensor(kernel(x, lengthscale))))).all()


def test_each_matrix_of_a_batch_gets_its_own_jitter_relative_to_its_diagonal():
    x = np.repeat(np.linspace(0.0, 1.0, 20), 2)
    singular = kernel(x, 1.0)
    batch = np.stack([np.eye(40), singular, 1e8 * singular, 1e-8 * singular])
    jitter = array(linalg._factorize(tensor(batch))[1])
    assert jitter[0] == 0.0
    assert np.all(jitter[1:] > 0.0)
    relative = jitter / np.array([1.0, 1.0, 1e8, 1e-8])
    assert np.all(relative < 1e-3)
    assert np.isfinite(array(linalg.cholesky(tensor(batch)))).all()


def test_beyond_repair_it_is_nan_and_the_others_are_not():
    batch = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 1.0]], np.full((2, 2), np.nan)])
    for function in (linalg.cholesky, jit(linalg.cholesky)):
        tril = array(function(tensor(batch)))
        np.testing.assert_array_equal(tril[0], np.eye(2))
        assert np.isnan(tril[1:, 1]).all()
    linalg.check_factor(linalg.cholesky(tensor(batch[:1])))
    with pytest.raises(ValueError, match=r"`covariance` to be positive definite"):
        linalg.check_factor(linalg.cholesky(tensor(batch)), "covariance")
    if BACKEND != "torch":
        # In a compiled function nothing is looked at.
        jit(lambda x: linalg.check_factor(linalg.cholesky(x)))(tensor(batch))


def test_gradients_are_right_and_finite_with_a_jitter():
    def loss(matrix):
        tril = linalg.cholesky(matrix)
        return linalg.log_det(tril) + ops.sum(tril[1:, 0])

    def expected(matrix):
        tril = np.linalg.cholesky(0.5 * (matrix + matrix.T))
        return 2.0 * np.sum(np.log(np.diagonal(tril))) + np.sum(tril[1:, 0])

    matrix = MATRIX[0, 0]
    _, (gradient,) = value_and_grad(loss, matrix)
    slopes = finite_difference(expected, matrix)
    # Backends share the slope of equal elements between them as they like.
    np.testing.assert_allclose(
        gradient + gradient.T, slopes + slopes.T, rtol=1e-3, atol=1e-4
    )
    singular = kernel(np.repeat(np.linspace(0.0, 1.0, 10), 2), 1.0)
    value, (gradient,) = value_and_grad(loss, singular)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_the_zero_matrix_has_a_factor():
    tril = array(linalg.cholesky(tensor(np.zeros((3, 3)))))
    assert np.all(np.diagonal(tril) > 0.0)
    assert np.all(tril < 1e-15)


@pytest.mark.parametrize("function", ["cholesky", "normal_log_density"])
def test_a_definite_matrix_is_factorized_once_for_value_and_gradient(
    function, monkeypatch
):
    calls = []
    factorize = linalg.backend.cholesky
    monkeypatch.setattr(
        linalg.backend, "cholesky", lambda m: calls.append(1) or factorize(m)
    )
    arguments = [MATRIX[0, 0], COLUMNS[0]][: 1 if function == "cholesky" else 2]
    values_and_grad(getattr(linalg, function), *arguments)
    # JAX traces the loop that would repeat it.
    assert len(calls) == (2 if BACKEND == "jax" else 1)


def functions_of_a_number():
    """Functions of a matrix, along a line of matrices, here and in NumPy."""
    start, step = MATRIX[0, 0], MATRIX[1, 0]
    weights = np.arange(16.0).reshape(4, 4)

    def factor(t):
        tril = linalg.cholesky(tensor(start) + t * tensor(step))
        return ops.sum(tensor(weights) * tril)

    def expected_factor(t):
        return np.sum(weights * np.linalg.cholesky(start + t * step))

    def density(t):
        matrix = tensor(start) + t * tensor(step)
        columns = (1.0 + t * t) * tensor(COLUMNS[0])
        weights = ops.arange(1.0, 6.0)
        return ops.sum(weights * linalg.normal_log_density(matrix, columns))

    def expected_density(t):
        normal = stats.multivariate_normal(np.zeros(4), start + t * step)
        log_densities = normal.logpdf((1.0 + t * t) * COLUMNS[0].T)
        return np.sum(np.arange(1.0, 6.0) * log_densities)

    return [(factor, expected_factor), (density, expected_density)]


@pytest.mark.parametrize("index", [0, 1])
def test_first_and_second_derivatives_in_both_modes(index):
    function, expected = functions_of_a_number()[index]
    t, step = 0.3, 1e-3
    value, (slope,) = value_and_grad(function, t)
    np.testing.assert_allclose(value, expected(t), rtol=1e-5)
    first = (expected(t + step) - expected(t - step)) / (2.0 * step)
    np.testing.assert_allclose(slope, first, rtol=1e-3)
    second = expected(t + step) - 2.0 * expected(t) + expected(t - step)
    second = second / step**2
    np.testing.assert_allclose(second_derivative(function, t), second, rtol=1e-3)
    if BACKEND != "tensorflow":
        np.testing.assert_allclose(forward_derivative(function, t), first, rtol=1e-3)


@pytest.mark.parametrize("size", [3, 700])
def test_log_densities_and_their_gradients(size):
    # 700 rows are inverted by blocks where there is no function for it.
    x = np.random.default_rng(1).normal(size=(size, 2))
    squares = np.sum(np.square(x[:, None] - x[None]), axis=-1)
    matrix = np.exp(-0.5 * squares) + 0.5 * np.eye(size)
    columns = np.random.default_rng(2).normal(size=(size, 2))
    weights = np.array([1.0, -0.5])

    def weighted(matrix, columns):
        return tensor(weights) * linalg.normal_log_density(matrix, columns)

    values, gradients = values_and_grad(weighted, matrix, columns)
    normal = stats.multivariate_normal(np.zeros(size), matrix)
    np.testing.assert_allclose(values, weights * normal.logpdf(columns.T), rtol=1e-4)
    inverse = np.linalg.inv(matrix)
    solved = inverse @ columns
    expected = 0.5 * ((weights * solved) @ solved.T - weights.sum() * inverse)
    np.testing.assert_allclose(gradients[0], expected, atol=1e-3)
    np.testing.assert_allclose(gradients[1], -weights * solved, atol=1e-3)


def test_log_densities_broadcast_over_batches():
    log_density = array(linalg.normal_log_density(tensor(MATRIX), tensor(COLUMNS)))
    assert log_density.shape == (2, 3, 5)
    for i, j in np.ndindex(2, 3):
        normal = stats.multivariate_normal(np.zeros(4), MATRIX[i, 0])
        expected = normal.logpdf(COLUMNS[j].T)
        np.testing.assert_allclose(log_density[i, j], expected, rtol=1e-4)


def test_log_densities_of_singular_matrices_are_finite_and_those_beyond_repair_raise():
    singular = kernel(np.repeat(np.linspace(0.0, 1.0, 10), 2), 1.0)
    values, gradients = values_and_grad(
        linalg.normal_log_density, singular, np.ones((20, 1))
    )
    assert np.isfinite(values).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    with pytest.raises(ValueError, match="`matrix` to be positive definite"):
        linalg.normal_log_density(tensor([[1.0, 2.0], [2.0, 1.0]]), tensor([[1.0]] * 2))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Unknown sizes are TensorFlow's.")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_sizes_that_are_known_at_run_time_only(jit_compile):
    import tensorflow as tf

    @tf.function(
        input_signature=[tf.TensorSpec((None, None)), tf.TensorSpec((None, None))],
        jit_compile=jit_compile,
    )
    def program(matrix, columns):
        with tf.GradientTape() as tape:
            tape.watch(matrix)
            log_density = linalg.normal_log_density(matrix, columns)
            value = ops.sum(log_density) + ops.sum(linalg.cholesky(matrix))
        return value, tape.gradient(value, matrix)

    value, gradient = program(tensor(MATRIX[0, 0]), tensor(COLUMNS[0]))
    normal = stats.multivariate_normal(np.zeros(4), MATRIX[0, 0])
    expected = normal.logpdf(COLUMNS[0].T).sum() + FACTOR[0, 0].sum()
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.isfinite(gradient).all()


@pytest.mark.skipif(BACKEND != "jax", reason="Mapped functions are JAX's.")
def test_mapped_over_matrices_each_has_its_own_jitter():
    import jax

    singular = kernel(np.repeat(np.linspace(0.0, 1.0, 2), 2), 1.0)
    batch = tensor(np.stack([np.eye(4), singular]))

    def total(matrix):
        return ops.sum(linalg.normal_log_density(matrix, ops.ones((4, 1))))

    values, gradients = jax.vmap(jax.value_and_grad(total))(batch)
    for matrix, value, gradient in zip(batch, values, gradients, strict=True):
        expected_value, (expected,) = value_and_grad(total, matrix)
        np.testing.assert_allclose(value, expected_value, rtol=1e-3)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(gradient / scale, expected / scale, atol=1e-2)


@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_broadcast_over_batches(transposed):
    solved = array(
        linalg.solve_lower(tensor(FACTOR), tensor(COLUMNS), transposed=transposed)
    )
    assert solved.shape == (2, 3, 4, 5)
    for i, j in np.ndindex(2, 3):
        expected = oracle.solve_triangular(
            FACTOR[i, 0], COLUMNS[j], lower=True, trans=int(transposed)
        )
        np.testing.assert_allclose(solved[i, j], expected, rtol=1e-4, atol=1e-4)


def test_solutions_by_the_factor_and_the_determinant():
    solved = array(linalg.cholesky_solve(tensor(FACTOR), tensor(COLUMNS)))
    expected = np.linalg.solve(MATRIX, np.broadcast_to(COLUMNS, (2, 3, 4, 5)))
    np.testing.assert_allclose(solved, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        array(linalg.log_det(tensor(FACTOR))), np.linalg.slogdet(MATRIX)[1], rtol=1e-5
    )


@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_vectors_that_share_a_matrix(batch):
    tril = FACTOR if batch else FACTOR[0, 0]
    vectors = rng.normal(size=(3, 4))
    solved = array(linalg.solve_lower_vectors(tensor(tril), tensor(vectors)))
    expected = np.linalg.solve(tril[..., None, :, :] if batch else tril, vectors.T)
    expected = np.swapaxes(expected, -1, -2)
    expected = expected[:, 0, 0] if batch else expected
    np.testing.assert_allclose(solved, expected, rtol=1e-4, atol=1e-4)


def test_the_jitter_follows_the_dtype():
    if not has_float64():
        pytest.skip("Keras computes in float32 here.")
    singular = kernel(np.repeat(np.linspace(0.0, 1.0, 10), 2), 1.0).astype("float64")
    jitter = array(linalg._factorize(ops.convert_to_tensor(singular))[1])
    assert 0.0 < jitter < 1e-6


# The divergence of multivariate normals is computed from the factors that they hold.

D = bl.distributions
NORMALS = {
    "Diag": lambda k: D.MultivariateNormalDiag(np.arange(k) / k, 0.5 + np.arange(k)),
    "TriL": lambda k: D.MultivariateNormalTriL(np.ones(k), FACTOR[:, 0]),
    "Kronecker": lambda k: D.MultivariateNormalKronecker(
        np.ones(k), np.diag([1.0, 2.0]), np.eye(k // 2) + 0.5 * np.tri(k // 2, k=-1)
    ),
    "LowRank": lambda k: D.MultivariateNormalLowRank(
        np.zeros(k), 1.0 + np.arange(k), np.ones((k, 2))
    ),
}


@pytest.mark.parametrize("q_name", NORMALS)
@pytest.mark.parametrize("p_name", NORMALS)
def test_divergences_of_normals_factorize_nothing(q_name, p_name, monkeypatch):
    q, p = NORMALS[q_name](4), NORMALS[p_name](4)
    expected = dense_divergence(q, p)
    sizes = []
    factorize = linalg.cholesky
    monkeypatch.setattr(
        linalg, "cholesky", lambda m: sizes.append(m.shape[-1]) or factorize(m)
    )
    actual = array(q.kl_divergence(p, method="closed_form"))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    # Only the small matrices of the low rank, of two rows.
    assert all(size == 2 for size in sizes)


def dense_divergence(q, p):
    (q_loc, q_cov), (p_loc, p_cov) = (
        (array(d.loc).astype("float64"), array(d.covariance()).astype("float64"))
        for d in (q, p)
    )
    inverse, gap = np.linalg.inv(p_cov), q_loc - p_loc
    trace = np.trace(inverse @ q_cov, axis1=-2, axis2=-1)
    distance = np.einsum("...i,...ij,...j->...", gap, inverse, gap)
    log_dets = np.linalg.slogdet(p_cov)[1] - np.linalg.slogdet(q_cov)[1]
    return 0.5 * (trace + distance - q_loc.shape[-1] + log_dets)


def test_diagonals_and_their_gradients():
    """On every backend, of any batch; above all on TensorFlow, which has its own."""
    rng = np.random.default_rng(0)
    for shape in [(3, 3), (2, 1, 4, 4)]:
        matrix = rng.normal(size=shape).astype("float32")
        weights = rng.normal(size=shape[:-1]).astype("float32")
        diagonal = backend.diagonal(ops.convert_to_tensor(matrix))
        expected = np.diagonal(matrix, axis1=-2, axis2=-1)
        np.testing.assert_array_equal(ops.convert_to_numpy(diagonal), expected)
        assert tuple(diagonal.shape) == shape[:-1]
        _, (gradient,) = value_and_grad(
            lambda x, w=weights: ops.sum(backend.diagonal(x) * ops.array(w)), matrix
        )
        expected = weights[..., None] * np.eye(shape[-1])
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)
