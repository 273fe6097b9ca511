"""The contract of invertible maps, against Jacobians by differentiation."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

from bayesian_layers import distributions
from bayesian_layers.distributions import constraints, transform_to, transforms
from tests.differentiation import grad, jit, run, values_and_grad

LOWS = np.array([-1.0, 0.5, 100.0], "float32")
# A map, and the shape of one input.
TRANSFORMS = {
    "Identity": (transforms.Identity(), ()),
    "Exp": (transforms.Exp(), ()),
    "Softplus": (transforms.Softplus(), ()),
    "Softplus above 2": (transforms.Softplus(2.0), ()),
    "Sigmoid": (transforms.Sigmoid(), ()),
    "Tanh": (transforms.Tanh(), ()),
    "Affine": (transforms.Affine(1.0, -2.0), ()),
    "Bounded": (transforms.Bounded(-1.0, 3.0), ()),
    "Bounded below": (transforms.Bounded(5.0), ()),
    "Bounded above": (transforms.Bounded(high=-5.0), ()),
    "not Bounded": (transforms.Bounded(), ()),
    "Bounded by tensors": (
        transforms.Bounded(LOWS, np.array([2.0, np.inf, 101.0], "float32")),
        (3,),
    ),
    "StickBreaking": (transforms.StickBreaking(), (3,)),
    "LowerTriangular": (transforms.LowerTriangular(), (6,)),
    "LowerTriangular of ratios": (
        transforms.LowerTriangular(transforms.Softplus(0.1), transforms.Tanh()),
        (6,),
    ),
    "Elementwise": (transforms.Elementwise(transforms.Exp(), 1), (3,)),
    "Elementwise of vectors": (
        transforms.Elementwise(transforms.StickBreaking(), 2),
        (2, 3),
    ),
    "Chain": (
        transforms.Chain([transforms.Affine(1.0, -2.0), transforms.Sigmoid()]),
        (),
    ),
    "Chain of ranks": (
        transforms.Chain([transforms.Affine(0.0, 0.5), transforms.LowerTriangular()]),
        (6,),
    ),
    "Reverse": (transforms.Reverse(transforms.Affine(1.0, -2.0)), ()),
    "Reverse of Reverse": (
        transforms.Reverse(transforms.Reverse(transforms.StickBreaking())),
        (3,),
    ),
}
every = pytest.mark.parametrize("name", TRANSFORMS)


def jacobian(function, x):
    """d function(x) / dx, of one flat vector, row by row."""
    x = np.asarray(x, "float32")
    size = len(ops.convert_to_numpy(function(ops.convert_to_tensor(x))))
    return np.stack(
        [grad(lambda x, i=i: function(x)[i], x)[0] for i in range(size)], axis=0
    )


def flat_map(transform, shape):
    """The map as a function of a flat vector to the free elements of its value."""

    def function(x):
        y = transform(ops.reshape(x, shape))
        if transform.output_rank == 2 and len(y.shape) == 2 and len(shape) == 1:
            rows, columns = np.tril_indices(y.shape[-1])
            y = ops.take(ops.reshape(y, (-1,)), rows * y.shape[-1] + columns)
        elif tuple(y.shape) != shape:
            y = y[..., :-1]
        return ops.reshape(y, (-1,))

    return function


@every
def test_log_determinants_are_those_of_the_jacobian(name):
    transform, shape = TRANSFORMS[name]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    matrix = jacobian(flat_map(transform, shape), np.atleast_1d(x).reshape(-1))
    expected = np.linalg.slogdet(matrix.astype("float64"))[1]
    y, log_det = run(transform.forward_and_log_det, x)
    assert log_det.shape == shape[: len(shape) - transform.event_rank]
    np.testing.assert_allclose(np.sum(log_det), expected, rtol=1e-4, atol=1e-5)
    _, back = run(transform.reverse_and_log_det, y)
    assert back.shape == log_det.shape
    np.testing.assert_allclose(back, -log_det, rtol=1e-3, atol=1e-4)
    alone = run(transform.log_det_jacobian, x)
    np.testing.assert_allclose(alone, log_det, rtol=1e-6)


@every
def test_values_are_inside_of_the_image_and_lead_back(name):
    transform, shape = TRANSFORMS[name]
    x = 2.0 * np.random.default_rng(1).normal(size=(5, *shape)).astype("float32")

    def round_trip(x):
        y = transform(x)
        inside = transform.image.check(y)
        projected = transform.image.project(y)
        return y, inside, projected, transform.reverse(y)

    y, inside, projected, back = run(round_trip, x)
    assert y.shape == (5, *transform.forward_shape(shape))
    assert transform.reverse_shape(y.shape) == x.shape
    assert inside.all()
    np.testing.assert_array_equal(projected, y)
    np.testing.assert_allclose(back, x, rtol=1e-3, atol=1e-3)


@every
@pytest.mark.parametrize("size", [50.0, 1e4])
def test_extreme_numbers_have_finite_values_inside_of_the_image(name, size):
    transform, shape = TRANSFORMS[name]
    rng = np.random.default_rng(2)
    x = size * rng.choice([-1.0, 1.0], (4, *shape)).astype("float32")

    def everything(x):
        y, log_det = transform.forward_and_log_det(x)
        return y, log_det, transform.image.check(y), *transform.reverse_and_log_det(y)

    y, log_det, inside, back, reverse_log_det = run(everything, x)
    for values in (y, log_det, back, reverse_log_det):
        assert np.isfinite(values).all()
    assert inside.all()
    _, (slope,) = values_and_grad(lambda x: transform(x), x)
    _, (log_det_slope,) = values_and_grad(transform.log_det_jacobian, x)
    assert np.isfinite(slope).all()
    assert np.isfinite(log_det_slope).all()


@every
def test_a_transform_is_compiled_and_saved(name):
    transform, shape = TRANSFORMS[name]
    x = ops.convert_to_tensor(np.full((2, *shape), 0.3, "float32"))
    config = keras.saving.serialize_keras_object(transform)
    copy = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(copy) is type(transform)
    np.testing.assert_allclose(
        ops.convert_to_numpy(jit(copy)(x)), ops.convert_to_numpy(transform(x))
    )
    if name != "Bounded by tensors":
        assert copy == transform
        assert hash(copy) == hash(transform)
    assert transform == transform
    assert type(transform).__name__ in repr(transform)


def test_different_numbers_make_different_transforms():
    assert transforms.Affine(1.0, 2.0) != transforms.Affine(1.0, 3.0)
    assert transforms.Exp() != transforms.Softplus()
    chains = [
        transforms.Chain([transforms.Exp(), transforms.Affine(0.0, s)])
        for s in (1.0, 2.0)
    ]
    assert chains[0] != chains[1]


@pytest.mark.parametrize(
    ("transform", "increasing"),
    [
        (transforms.Chain([transforms.Exp(), transforms.Affine(0.0, -1.0)]), False),
        (transforms.Chain([transforms.Affine(0.0, -1.0)] * 2), True),
        (transforms.Reverse(transforms.Affine(0.0, -1.0)), False),
        (transforms.Reverse(transforms.Exp()), True),
    ],
)
def test_maps_of_maps_know_whether_they_increase(transform, increasing):
    assert transform.increasing is increasing
    y = ops.convert_to_numpy(transform(np.array([1.0, 2.0], "float32")))
    assert (y[1] > y[0]) == increasing


def test_maps_of_vectors_are_not_monotone():
    chain = transforms.Chain([transforms.Exp(), transforms.StickBreaking()])
    for transform in (chain, transforms.Reverse(chain)):
        assert not hasattr(transform, "increasing")


def test_a_chain_knows_what_it_reaches():
    # Numbers above 3: below -3 are none, although the last map reaches all numbers.
    chain = transforms.Chain([transforms.Exp(), transforms.Affine(3.0, 2.0)])
    inside = chain.image.check(ops.convert_to_tensor([-4.0, 2.9, 3.1]))
    assert ops.convert_to_numpy(inside).tolist() == [False, False, True]
    shifted = distributions.Transformed(distributions.Normal(0.0, 1.0), chain)
    values, (slope,) = values_and_grad(shifted.log_prob, [-4.0, 5.0])
    expected = [-np.inf, stats.lognorm(1.0, scale=2.0).logpdf(2.0)]
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert np.isfinite(slope).all()


def test_wrong_parts_are_refused():
    with pytest.raises(ValueError, match="at least one map"):
        transforms.Chain([])
    with pytest.raises(TypeError, match="invertible maps.*exp"):
        transforms.Chain([np.exp])
    with pytest.raises(TypeError, match="Reverse expects"):
        transforms.Reverse(np.exp)
    with pytest.raises(ValueError, match="event_rank=0"):
        transforms.Elementwise(transforms.StickBreaking(), 0)
    with pytest.raises(ValueError, match=r"1, 3, 6, 10.*Received: 5"):
        transforms.LowerTriangular()(np.zeros(5, "float32"))
    with pytest.raises(TypeError, match="contract.*transform=.*exp"):
        distributions.Transformed(distributions.Normal(0.0, 1.0), np.exp)


# From the real line to a constraint.

VECTOR = np.zeros(3, "float32")
SUPPORTS = {
    "real": constraints.real,
    "positive": constraints.positive,
    "nonnegative": constraints.nonnegative,
    "above 2": constraints.GreaterThan(2.0),
    "at least -3": constraints.AtLeast(-3.0),
    "unit interval": constraints.unit_interval,
    "interval": constraints.Interval(-2.0, 5.0),
    "open interval": constraints.OpenInterval(-2.0, 5.0),
    "simplex": constraints.simplex,
    "lower triangular": constraints.lower_triangular,
    "real vector": constraints.real_vector,
    "positive vector": constraints.positive_vector,
    "real matrix": constraints.real_matrix,
    "HalfCauchy": distributions.HalfCauchy(LOWS, 1.0).support,
    "Uniform": distributions.Uniform(LOWS, LOWS + 1.0).support,
    "TruncatedNormal": distributions.TruncatedNormal(VECTOR, 1.0, 0.0, np.inf).support,
    "Independent": distributions.Independent(
        distributions.Gamma(VECTOR + 1.0, 1.0), 1
    ).support,
    "Transformed": distributions.Transformed(
        distributions.Gamma(2.0, 1.0), transforms.Affine(1.0, -2.0)
    ).support,
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_a_constraint_has_its_map_from_the_real_line(name):
    constraint = SUPPORTS[name]
    assert not constraint.is_discrete
    transform = transform_to(constraint)
    assert transform.output_rank == constraint.event_rank
    shape = transform.reverse_shape((4, 3, 3))
    x = 3.0 * np.random.default_rng(3).normal(size=shape).astype("float32")
    y, log_det, inside, back = run(
        lambda x: (
            *transform.forward_and_log_det(x),
            constraint.check(transform(x)),
            transform.reverse(transform(x)),
        ),
        x,
    )
    assert y.shape == (4, 3, 3)
    assert log_det.shape == (4, 3, 3)[: 3 - constraint.event_rank]
    assert inside.all()
    np.testing.assert_allclose(back, x, rtol=1e-2, atol=1e-2)


def test_a_half_line_and_an_interval_have_the_maps_that_are_documented():
    assert transform_to(constraints.positive) == transforms.Exp()
    assert transform_to(constraints.unit_interval) == transforms.Sigmoid()
    assert transform_to(constraints.real) == transforms.Identity()
    assert transform_to(constraints.Interval(-1.0, 2.0)) == transforms.Bounded(-1, 2)


@pytest.mark.parametrize(
    "constraint",
    [
        constraints.boolean,
        constraints.nonnegative_integer,
        constraints.one_hot,
        constraints.IntegerInterval(0, 5),
        constraints.Grid(0.0, 1.0, 0.5),
        constraints.Counts(3),
        constraints.Elementwise(constraints.boolean, 1),
        distributions.Transformed(
            distributions.Poisson(2.0), transforms.Affine(1.0, 2.0)
        ).support,
    ],
    ids=repr,
)
def test_a_discrete_set_has_none(constraint):
    assert constraint.is_discrete
    with pytest.raises(ValueError, match="discrete set"):
        transform_to(constraint)


def test_other_constraints_are_registered():
    class Circle(constraints.Constraint):
        description = "on the circle"

    with pytest.raises(ValueError, match=r"transform_to.register\(Circle\)"):
        transform_to(Circle())
    transform_to.register(Circle)(lambda constraint: transforms.Bounded(0.0, 6.0))
    assert transform_to(Circle()) == transforms.Bounded(0.0, 6.0)
    with pytest.raises(TypeError, match="expects a constraint.*'positive'"):
        transform_to("positive")


def test_a_density_pulled_back_to_the_real_line_integrates_to_one():
    # What MCMC does: log p(transform(x)) + log |det|, here of a Dirichlet over two
    # numbers, on a grid that is fine against its width and wide against its tails.
    x = np.linspace(-12.0, 12.0, 97).astype("float32")
    grid = np.stack(np.meshgrid(x, x), axis=-1)
    dirichlet = distributions.Dirichlet([2.0, 3.0, 1.5])
    transform = transform_to(dirichlet.support)

    def log_density(x):
        y, log_det = transform.forward_and_log_det(x)
        return dirichlet.log_prob(y) + log_det

    density = np.exp(run(log_density, grid))
    np.testing.assert_allclose(density.sum() * (x[1] - x[0]) ** 2, 1.0, rtol=1e-3)


# Transformed distributions.


@pytest.mark.parametrize(
    "transformed",
    [
        distributions.Transformed(distributions.Normal(0.5, 2.0), transforms.Exp()),
        distributions.Transformed(
            distributions.Normal(VECTOR, 1.0), transforms.StickBreaking()
        ),
        distributions.Transformed(
            distributions.MultivariateNormalDiag(VECTOR, VECTOR + 1.0),
            transforms.Tanh(),
        ),
        distributions.Transformed(
            distributions.Poisson(3.0), transforms.Affine(1.0, 2.0)
        ),
    ],
    ids=lambda d: type(d.transform).__name__,
)
def test_samples_come_with_their_densities(transformed):
    y, log_prob = run(lambda: transformed.sample_and_log_prob(7, seed=1))
    np.testing.assert_array_equal(y, run(lambda: transformed.sample(7, seed=1)))
    assert log_prob.shape == (7, *transformed.batch_shape)
    np.testing.assert_allclose(
        log_prob, run(transformed.log_prob, y), rtol=1e-3, atol=1e-3
    )
    assert run(transformed.support.check, y).all()


def test_a_map_is_not_reversed_for_a_sample_with_its_density():
    class Forward(transforms.Exp):
        def reverse(self, y):
            raise AssertionError

    distribution = distributions.Transformed(distributions.Normal(0.0, 1.0), Forward())
    value, log_prob = distribution.sample_and_log_prob(seed=1)
    expected = stats.lognorm(1.0).logpdf(float(value))
    np.testing.assert_allclose(float(log_prob), expected, rtol=1e-5)


def test_a_map_that_changes_shapes_changes_the_event():
    base = distributions.Normal(np.zeros((4, 2), "float32"), 1.0)
    transformed = distributions.Transformed(base, transforms.StickBreaking())
    assert (transformed.batch_shape, transformed.event_shape) == ((4,), (3,))
    assert ops.shape(transformed.sample(5, seed=0)) == (5, 4, 3)
    matrices = distributions.Transformed(
        distributions.Normal(np.zeros((4, 6), "float32"), 1.0),
        transforms.LowerTriangular(),
    )
    assert matrices.event_shape == (3, 3)
    log_prob = matrices.log_prob(np.eye(3, dtype="float32"))
    np.testing.assert_allclose(
        ops.convert_to_numpy(log_prob),
        np.full(4, 6 * stats.norm.logpdf(0.0)),
        rtol=1e-5,
    )


def test_the_probabilities_of_counts_are_not_changed_by_a_map():
    doubled = distributions.Transformed(
        distributions.Poisson(3.0), transforms.Affine(1.0, 2.0)
    )
    np.testing.assert_allclose(
        float(doubled.log_prob(5.0)), stats.poisson(3.0).logpmf(2), rtol=1e-5
    )
