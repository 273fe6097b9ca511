"""Every covariance against an outside oracle, and what all have in common."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers import covariances
from tests.covariances import references
from tests.covariances.table import ROWS, X, Z, array, inputs_of, reference_of
from tests.differentiation import run, value_and_grad

KERNELS = [name for name, row in ROWS.items() if row.hyperparameters]


def matrices(covariance, x, z):
    """cov(x, z), cov(x) and the diagonal, in one program."""

    def compute(x, z):
        return covariance(x, z), covariance(x), covariance.diagonal(x)

    return run(compute, x, z)


def test_every_covariance_has_a_row():
    classes = {name for name in covariances.__all__ if name[0].isupper()}
    assert classes - {"Covariance"} == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_values_are_those_of_the_reference(name):
    x, z = inputs_of(name)
    covariance = ROWS[name].make()
    covariance.build(x.shape)
    cross, square, diagonal = matrices(covariance, x, z)
    reference = reference_of(name, covariance)
    np.testing.assert_allclose(cross, reference(x, z), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(square, reference(x), rtol=1e-4, atol=2e-5)
    variances = np.diagonal(square, axis1=-2, axis2=-1)
    np.testing.assert_allclose(diagonal, variances, rtol=1e-5)
    transposed = np.swapaxes(square, -1, -2)
    np.testing.assert_allclose(square, transposed, rtol=1e-6, atol=1e-6)
    assert np.linalg.eigvalsh(square.astype("float64")).min() > -1e-5


@pytest.mark.parametrize("name", ROWS)
def test_the_diagonal_builds_no_matrix(name, monkeypatch):
    x, _ = inputs_of(name)
    covariance = ROWS[name].make()
    covariance.build(x.shape)
    for cls in {type(part) for part in covariance._flatten_layers()}:
        if issubclass(cls, covariances.Covariance):
            monkeypatch.setattr(cls, "matrix", _of_one_row(cls.matrix))
    with pytest.raises(AssertionError):
        covariance(x)
    covariance.diagonal(x)


def _of_one_row(matrix):
    def checked(self, x, z, **hyperparameters):
        assert x.shape[-2] == 1
        return matrix(self, x, z, **hyperparameters)

    return checked


@pytest.mark.parametrize("order", [0, 2])
def test_other_orders_of_arc_cosine(order):
    covariance = covariances.ArcCosine(0.8, 1.2, 0.6, order=order)
    covariance.build(X.shape)
    reference = references.arc_cosine(0.8, 1.2, 0.6, order)
    cross, square, diagonal = matrices(covariance, X, Z)
    np.testing.assert_allclose(cross, reference(X, Z), rtol=1e-4)
    np.testing.assert_allclose(square, reference(X), rtol=1e-4)
    np.testing.assert_allclose(diagonal, np.diag(square), rtol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_a_batch_of_covariances_is_a_loop(name):
    x, z = inputs_of(name)
    batch = ROWS[name].make(batch_shape=(2,))
    parts = [ROWS[name].make() for _ in range(2)]
    for part in (batch, *parts):
        part.build(x.shape)
    shapes = {k: tuple(ops.shape(v)) for k, v in batch.hyperparameters().items()}
    expected = ROWS[name].hyperparameters
    assert shapes == {name: (2, *shape) for name, shape in expected.items()}
    for stacked, *single in zip(
        *(c.trainable_variables for c in (batch, *parts)), strict=True
    ):
        value = array(stacked)
        value[1] += 0.3
        stacked.assign(value)
        for index, variable in enumerate(single):
            variable.assign(value[index])
    stacked = covariances.Stacked(parts)
    results = matrices(batch, x, z), matrices(stacked, x, z)
    for result, reference in zip(*results, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)
    xs = np.stack([x, x + 1.0])
    results = matrices(batch, xs, z), matrices(stacked, xs, z)
    for result, reference in zip(*results, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite(name, scale):
    x, _ = inputs_of(name)
    x = np.concatenate([x, x[:2], 1e-8 + x[:2]])  # Duplicates.
    covariance = ROWS[name].make()
    lengths = {"lengthscale", "period"} & set(ROWS[name].hyperparameters)
    covariance = type(covariance)(
        **{**covariance.get_config(), **dict.fromkeys(lengths, scale)}
    )
    covariance.build(x.shape)
    variables = covariance.trainable_variables
    weights = np.random.RandomState(1).randn(len(x), len(x))
    weights = ops.convert_to_tensor(weights, "float32")

    def total(x, *values):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(mapping):
            matrix = covariance(x) + 2.0 * covariance(x, x)
            return ops.sum(weights * matrix) + ops.sum(covariance.diagonal(x))

    value, gradients = value_and_grad(total, x, *map(array, variables))
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    if scale == 1.0:
        assert all(np.any(gradient != 0.0) for gradient in gradients[1:])


@pytest.mark.parametrize("name", ["Matern12", "ArcCosine"])
def test_gradients_at_duplicates_are_no_noise(name):
    # Of a cross-covariance with the inputs themselves, off the diagonal of `cov(x)`:
    # what the derivative of a root makes of rounding errors.
    covariance = type(ROWS[name].make())(**({"order": 0} if name[0] == "A" else {}))
    covariance.build((None, 3))
    x = np.repeat(X[:1], 5, axis=0)
    (gradient,) = value_and_grad(lambda x: ops.sum(covariance(x, X[:1])), x)[1]
    assert np.max(np.abs(gradient)) < 2.0


@pytest.mark.parametrize("columns", [1, 3])
def test_near_inputs_far_from_the_origin_are_told_apart(columns):
    x = (1000.0 + X[:, :columns] * 0.1).astype("float32")
    covariance = covariances.ExponentiatedQuadratic(lengthscale=0.1)
    covariance.build(x.shape)
    differences = x[:, None].astype("float64") - x
    expected = np.exp(-0.5 * np.sum(differences**2, axis=-1) / 0.01)
    np.testing.assert_allclose(array(covariance(x)), expected, atol=1e-5)


def test_active_dims_are_columns():
    for given in ([2, 0], slice(0, 3, 2), [-1, 0]):
        covariance = covariances.Matern32(ard=True, active_dims=given)
        inner = covariances.Matern32()
        expected = inner(X[:, [2, 0]], Z[:, [2, 0]])
        np.testing.assert_allclose(array(covariance(X, Z)), array(expected), atol=1e-6)
        assert ops.shape(covariance.hyperparameters()["lengthscale"]) == (2,)


@pytest.mark.parametrize("given", [[3], [-4], slice(0, 4), slice(3, None)])
def test_active_dims_out_of_range_are_refused(given):
    covariance = covariances.Matern32(active_dims=given)
    with pytest.raises(ValueError, match=r"columns of the inputs.*3\. Received"):
        covariance.build((None, 3))


@pytest.mark.parametrize("given", [[], [0, 0], "ab", 1.5, [0.5]])
def test_active_dims_that_are_no_columns_are_refused(given):
    with pytest.raises(ValueError, match="different integers, or a slice"):
        covariances.Matern32(active_dims=given)


def test_active_dims_of_a_composition_come_first():
    part = covariances.Linear(active_dims=[1])
    both = covariances.Sum([part, covariances.Constant()], active_dims=[1, 2])
    expected = X[:, 2:] @ X[:, 2:].T + 1.0
    np.testing.assert_allclose(array(both(X)), expected, rtol=1e-5)


def test_half_precision_is_not_used():
    for dtype in ("mixed_float16", "bfloat16", "float16"):
        covariance = covariances.Matern52(ard=True, dtype=dtype)
        result = covariance(ops.cast(X, "float16"))
        assert keras.backend.standardize_dtype(result.dtype) == "float32"
        assert {v.dtype for v in covariance.trainable_variables} == {"float32"}


def test_a_row_of_any_number_of_rows_in_a_compiled_model():
    class Columns(keras.Layer):
        def __init__(self):
            super().__init__()
            self.covariance = ROWS["Sum"].make()

        def build(self, input_shape):
            self.covariance.build(input_shape)

        def call(self, inputs):
            return ops.concatenate(
                [
                    self.covariance(inputs, Z),
                    self.covariance.diagonal(inputs)[:, None],
                    ops.sum(self.covariance(inputs), axis=-1, keepdims=True),
                ],
                axis=-1,
            )

    model = keras.Sequential([keras.Input((3,)), Columns()])
    got = model.predict(X, batch_size=4, verbose=0)
    reference = ROWS["Sum"].reference
    np.testing.assert_allclose(got[:, :4], reference(X, Z), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[:, 4], np.diag(reference(X)), rtol=1e-4)
    sums = [reference(part).sum(-1) for part in (X[:4], X[4:])]
    np.testing.assert_allclose(got[:, 5], np.concatenate(sums), rtol=1e-4)


def test_functions_of_users_without_batch_axes_are_enough():
    covariance = bl.covariances.get(
        lambda x, z: ops.exp(-ops.abs(x - ops.transpose(z)))
    )
    result = array(covariance.diagonal(X[:, :1]))
    np.testing.assert_allclose(result, np.ones(6), rtol=1e-6)
