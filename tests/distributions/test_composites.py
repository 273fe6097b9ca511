"""Distributions made from others, where the table's rows do not lead."""

import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

from bayesian_layers import distributions
from bayesian_layers.distributions import transforms
from tests.differentiation import grad, run, values_and_grad
from tests.statistics import assert_mean, assert_uncorrelated, assert_variance

# A map, its inverse image of the reals, and numbers where it is saturated in float32.
TRANSFORMS = {
    "Exp": (transforms.Exp(), (0.0, np.inf), [-200.0, 200.0]),
    "Softplus": (transforms.Softplus(), (0.0, np.inf), [-200.0]),
    "Sigmoid": (transforms.Sigmoid(), (0.0, 1.0), [-200.0, 200.0]),
    "Tanh": (transforms.Tanh(), (-1.0, 1.0), [-200.0, 200.0]),
    "Affine": (transforms.Affine(1.0, -2.0), (-np.inf, np.inf), []),
}
every_transform = pytest.mark.parametrize("name", TRANSFORMS)


@every_transform
def test_transforms_are_inverted_and_know_their_derivative(name):
    transform, _, _ = TRANSFORMS[name]
    x = np.array([-3.0, -0.5, 0.0, 0.1, 2.0])
    y, (slope,) = values_and_grad(transform, x)
    reversed_y, log_det = run(
        lambda x, y: (transform.reverse(y), transform.log_det_jacobian(x)),
        x.astype("float32"),
        y,
    )
    np.testing.assert_allclose(reversed_y, x, atol=1e-5)
    np.testing.assert_allclose(log_det, np.log(np.abs(slope)), atol=1e-5)
    assert np.all(np.sign(slope) == (1.0 if transform.increasing else -1.0))


@every_transform
def test_saturated_values_stay_inside_of_the_image_with_finite_density(name):
    transform, (low, high), saturated = TRANSFORMS[name]
    base = distributions.Normal(0.0, 100.0)
    transformed = distributions.Transformed(base, transform)
    x = np.array([-1.0, 1.0, *saturated])
    y, (slope,) = values_and_grad(transform, x)
    assert np.all((low < y) & (y < high))
    assert np.isfinite(slope).all()
    log_prob, (slope,) = values_and_grad(transformed.log_prob, y)
    assert np.isfinite(log_prob).all() and np.isfinite(slope).all()


@every_transform
def test_transformed_densities_are_slopes_of_their_distribution_functions(name):
    transform, (low, high), _ = TRANSFORMS[name]
    transformed = distributions.Transformed(distributions.Normal(0.5, 1.5), transform)
    y = ops.convert_to_numpy(transform(ops.convert_to_tensor([-1.0, 0.0, 2.0])))
    outside = np.array([t for t in (low - 1.0, high + 1.0) if np.isfinite(t)])
    points = np.concatenate([y, outside])
    cdf, (slope,) = values_and_grad(transformed.cdf, points)
    prob, log_cdf, log_survival = run(
        lambda: [
            transformed.prob(points),
            transformed.log_cdf(points),
            transformed.log_survival(points),
        ]
    )
    np.testing.assert_allclose(prob, slope, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(cdf[3:], outside > 0.0)
    np.testing.assert_allclose(np.exp(log_cdf), cdf, atol=1e-6)
    np.testing.assert_allclose(np.exp(log_survival), 1.0 - cdf, atol=1e-6)
    quantile = run(lambda: transformed.quantile(cdf[:3]))
    np.testing.assert_allclose(quantile, y, rtol=1e-3, atol=1e-4)


def test_values_outside_of_the_image_have_density_zero_and_finite_gradients():
    log_normal = distributions.Transformed(
        distributions.Normal(0.0, 1.0), transforms.Exp()
    )
    values, (slope,) = values_and_grad(log_normal.log_prob, [-1.0, 0.0, 2.0])
    np.testing.assert_allclose(values, [-np.inf, -np.inf, -1.8523], atol=1e-4)
    assert np.isfinite(slope).all()


class Rotation(transforms.Transform):
    """An invertible map of the last axis: what a reversible layer is to Transformed."""

    event_rank = 1
    matrix = np.array([[0.0, 2.0], [-1.0, 0.0]], "float32")

    def forward_and_log_det(self, x):
        return ops.matmul(x, self.matrix), ops.full(ops.shape(x)[:-1], np.log(2.0))

    def reverse_and_log_det(self, y):
        x = ops.matmul(y, np.linalg.inv(self.matrix))
        return x, ops.full(ops.shape(y)[:-1], -np.log(2.0))


def test_a_map_of_vectors_takes_the_axes_of_the_batch_that_it_mixes():
    base = distributions.Normal(np.zeros((3, 2), "float32"), [1.0, 3.0])
    transformed = distributions.Transformed(base, Rotation())
    assert (transformed.batch_shape, transformed.event_shape) == ((3,), (2,))
    x = np.array([0.5, -1.0])
    covariance = Rotation.matrix.T @ np.diag([1.0, 9.0]) @ Rotation.matrix
    expected = stats.multivariate_normal(np.zeros(2), covariance).logpdf(x)
    actual = ops.convert_to_numpy(transformed.log_prob(x))
    np.testing.assert_allclose(actual, np.full(3, expected), rtol=1e-5)
    assert ops.shape(transformed.sample(5, seed=0)) == (5, 3, 2)
    with pytest.raises(NotImplementedError, match="Transformed has no `cdf`"):
        transformed.cdf(x)
    with pytest.raises(ValueError, match="at least 1 axes"):
        distributions.Transformed(distributions.Normal(0.0, 1.0), Rotation())


def test_a_transform_passes_gradients_where_its_base_has_none():
    class Scale(transforms.Transform):
        def __init__(self, scale):
            self.scale = scale

        def forward_and_log_det(self, x):
            return self.scale * x, ops.log(self.scale) + ops.zeros_like(x)

    def loss(scale, rate):
        base = distributions.Poisson(ops.stop_gradient(rate))
        return distributions.Transformed(base, Scale(scale)).sample(seed=0)

    count = float(distributions.Poisson(5.0).sample(seed=0))
    np.testing.assert_allclose(grad(loss, 2.0, 5.0), [count, 0.0])


def test_independent_sums_over_the_axes_it_takes():
    normal = distributions.Normal(np.zeros((4, 3, 2)), 2.0)
    x = np.random.default_rng(0).normal(size=(5, 4, 3, 2)).astype("float32")
    for taken in range(4):
        independent = distributions.Independent(normal, taken)
        assert independent.batch_shape == (4, 3, 2)[: 3 - taken]
        assert independent.event_shape == (4, 3, 2)[3 - taken :]
        axes = tuple(range(-taken, 0))
        expected = stats.norm(0.0, 2.0).logpdf(x).sum(axis=axes)
        actual = ops.convert_to_numpy(independent.log_prob(x))
        np.testing.assert_allclose(actual, expected, rtol=1e-4)
    assert distributions.Independent(normal).batch_shape == (4,)


def test_independent_of_discrete_values_keeps_their_dtype_and_support():
    coins = distributions.Independent(distributions.Bernoulli(probs=[0.5, 0.25]), 1)
    assert coins.dtype == "int32"
    log_prob = ops.convert_to_numpy(coins.log_prob([[1, 1], [0.5, 1]]))
    np.testing.assert_allclose(log_prob, [np.log(0.125), -np.inf], rtol=1e-6)


def test_a_quantized_distribution_is_that_of_rounded_samples():
    base = distributions.Normal(1.3, 2.0)
    quantized = distributions.Quantized(base, -1, 3)
    values = np.arange(-3.0, 6.0)
    prob, cdf = run(lambda: (quantized.prob(values), quantized.cdf(values)))
    edges = np.concatenate([[-np.inf], np.arange(-0.5, 3.0), [np.inf]])
    expected = np.diff(stats.norm(1.3, 2.0).cdf(edges))
    np.testing.assert_allclose(prob[2:7], expected, atol=1e-6)
    np.testing.assert_array_equal(prob[[0, 1, 7, 8]], 0.0)
    np.testing.assert_allclose(cdf, np.cumsum(prob), atol=1e-6)
    assert float(quantized.prob(0.5)) == 0.0


def test_log_interval_is_the_integral_of_the_density():
    low, high = np.array([-1.0, 0.5, 3.0]), np.array([0.5, 0.6, 30.0])
    for base, density in (
        (distributions.Normal(0.3, 1.2), stats.norm(0.3, 1.2).pdf),
        (distributions.StudentT(3.0, 0.0, 1.0), stats.t(3.0).pdf),
        (distributions.Gamma(2.0, 1.5), stats.gamma(2.0, scale=1 / 1.5).pdf),
    ):
        expected = [
            np.log(integrate.quad(density, *ends, epsabs=0.0)[0])
            for ends in zip(low, high, strict=True)
        ]
        actual = run(lambda base=base: base.log_interval(low, high))
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_three_forms_of_one_multivariate_normal_are_one():
    loc, scale = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 2.0])
    forms = [
        distributions.MultivariateNormalDiag(loc, scale),
        distributions.MultivariateNormalTriL(loc, np.diag(scale)),
        distributions.MultivariateNormalLowRank(loc, scale**2, np.zeros((3, 2))),
    ]
    x = np.random.default_rng(0).normal(size=(4, 3))
    expected = stats.multivariate_normal(loc, np.diag(scale**2)).logpdf(x)
    for form in forms:
        log_prob, covariance = run(
            lambda form=form: (form.log_prob(x), form.covariance())
        )
        np.testing.assert_allclose(log_prob, expected, rtol=1e-5)
        np.testing.assert_allclose(covariance, np.diag(scale**2), atol=1e-6)


def test_members_of_a_batch_choose_among_shared_components_by_themselves():
    loc = np.array([[-5.0, 0.0], [5.0, 0.0]], "float32")
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(logits=np.zeros((3, 2), "float32")),
        distributions.Independent(distributions.Normal(loc, 1.0), 1),
    )
    assert (mixture.batch_shape, mixture.event_shape) == ((3,), (2,))
    draws = ops.convert_to_numpy(mixture.sample(5000, seed=0))
    assert draws.shape == (5000, 3, 2)
    assert_mean(draws, np.zeros((3, 2)), detect=1.0)
    assert_variance(draws, np.tile([26.0, 1.0], (3, 1)), detect=2.0)
    # Neither the component nor the draw from it is shared.
    assert_uncorrelated(draws[:, :-1], draws[:, 1:], detect=0.15)


def test_a_mixture_with_components_that_are_never_chosen():
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(logits=[0.0, -np.inf, 0.0]),
        distributions.Normal([-1.0, 5.0, 1.0], 0.1),
    )
    draws = ops.convert_to_numpy(mixture.sample(1000, seed=0))
    assert np.all(np.abs(np.abs(draws) - 1.0) < 1.0)
    x = np.array([-1.0, 5.0])
    expected = special.logsumexp(
        np.log(0.5) + stats.norm([-1.0, 1.0], 0.1).logpdf(x[:, None]), axis=-1
    )
    actual, slopes = values_and_grad(mixture.log_prob, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert np.isfinite(slopes).all()
