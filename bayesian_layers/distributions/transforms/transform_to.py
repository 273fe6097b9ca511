"""Maps from the real line to sets of values."""

import functools

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.transforms.arrays import (
    LowerTriangular,
    StickBreaking,
)
from bayesian_layers.distributions.transforms.composition import Chain, Elementwise
from bayesian_layers.distributions.transforms.elementwise import (
    Bounded,
    Exp,
    Identity,
    Sigmoid,
)


@functools.singledispatch
def transform_to(constraint):
    """The invertible map from real numbers to a set of values.

    It is what gradient-based inference needs, which moves on the whole real line:

    - real numbers: the identity;
    - positive numbers, or those above a bound: `low + exp(x)`. The exponential gives
      heavy tails of a scale (a half-Cauchy, say) light ones, which samplers need; the
      heads and posteriors use `softplus`, whose slope is bounded, which training needs;
    - intervals: a scaled `sigmoid(x)`, or as above where an end is infinite;
    - vectors of `k` positive numbers with sum one: stick-breaking, from `k - 1`;
    - lower triangular `n x n` matrices with positive diagonal: from `n * (n + 1) / 2`;
    - arrays of such elements: the map of each, as one map.

    Other constraints are added by `transform_to.register(MyConstraint)(function)`,
    with a function from the constraint to its map.

    Args:
        constraint: One of `bl.distributions.constraints`, such as the `support` of a
            distribution or an entry of its `parameters`.

    Returns:
        A map as in `bl.distributions.transforms`; `map.reverse_shape(shape)` is the
        shape of the real numbers for values of that shape.

    Raises:
        ValueError: If the set is discrete.

    Example:
    >>> gamma = bl.distributions.Gamma(2.0, 1.0)
    >>> y, log_det = bl.distributions.transform_to(gamma.support).forward_and_log_det(
    ...     np.zeros(3, "float32")
    ... )
    >>> ops.convert_to_numpy(y).tolist()
    [1.0, 1.0, 1.0]
    """
    if not isinstance(constraint, constraints.Constraint):
        raise TypeError(
            "transform_to expects a constraint, such as the `support` of a "
            f"distribution. Received: {constraint!r}"
        )
    if constraint.is_discrete:
        raise ValueError(
            "No invertible map leads from the real line to a discrete set. Sum over "
            f"its values instead, or draw them. Received: {constraint!r}"
        )
    raise ValueError(
        f"The map from the real line to {type(constraint).__name__} is not known. Add "
        f"it by `transform_to.register({type(constraint).__name__})(function)`. "
        f"Received: {constraint!r}"
    )


@transform_to.register(type(constraints.real))
def _real(constraint):
    return Identity()


@transform_to.register(constraints.GreaterThan)
def _greater_than(constraint):
    if isinstance(constraint.low, (int, float)) and constraint.low == 0:
        return Exp()
    return Bounded(constraint.low)


@transform_to.register(constraints.Interval)
@transform_to.register(constraints.OpenInterval)
def _interval(constraint):
    if constraint.is_discrete:
        return transform_to.dispatch(object)(constraint)
    low, high = constraint.low, constraint.high
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if numbers and (low, high) == (0, 1):
        return Sigmoid()
    return Bounded(low, high)


@transform_to.register(type(constraints.simplex))
def _simplex(constraint):
    return StickBreaking()


@transform_to.register(type(constraints.lower_triangular))
def _lower_triangular(constraint):
    return LowerTriangular()


@transform_to.register(constraints.Elementwise)
def _elementwise(constraint):
    element = transform_to(constraint.constraint)
    extra = constraint.event_rank - constraint.constraint.event_rank
    return Elementwise(element, element.event_rank + extra)


@transform_to.register(constraints.ImageOf)
def _image_of(constraint):
    return Chain([transform_to(constraint.constraint), constraint.transform])
