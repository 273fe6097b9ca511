"""Sets of values: what a parameter may be, and where a distribution has its mass.

A constraint is data. A distribution lists one for each of its parameters, and its
`support` is one; the base class validates parameters, guards `log_prob` outside the
support, and knows the shapes of parameters, from these objects alone. The map from the
real line to a constraint is `transform_to(constraint)`.
"""

from keras import ops


class Constraint:
    """A set of values, of which the last `event_rank` axes are one member.

    A set that `is_discrete` has isolated members: its distributions have probabilities
    in place of densities, and no map from the real line leads to it.
    """

    event_rank = 0
    is_discrete = False
    description = ""

    def check(self, value):
        """Returns, elementwise over the leading axes, whether `value` is a member."""
        raise NotImplementedError

    def project(self, value):
        """Returns `value` where it is a member and some member where it is not."""
        raise NotImplementedError

    def __repr__(self):
        return self.description


class _Real(Constraint):
    description = "real"

    def check(self, value):
        return ops.equal(value, value)

    def project(self, value):
        return value


class GreaterThan(Constraint):
    """The numbers above `low`."""

    def __init__(self, low, description=None):
        # `low` may be a tensor: it is put into words only when asked for.
        self.low = low
        self.description = description

    def check(self, value):
        """Returns whether `value > low`."""
        return ops.greater(value, self.low)

    def project(self, value):
        """Returns `value` where it is a member, and `low + 1` where it is not."""
        return ops.where(self.check(value), value, self.low + 1)

    def __repr__(self):
        return self.description or f"above {self.low}"


class AtLeast(GreaterThan):
    """The numbers from `low` upwards, `low` included."""

    def check(self, value):
        """Returns whether `value >= low`."""
        return ops.greater_equal(value, self.low)

    def __repr__(self):
        return self.description or f"at least {self.low}"


class Interval(Constraint):
    """The numbers from `low` to `high`, both included."""

    def __init__(self, low, high, description=None):
        self.low = low
        self.high = high
        self.description = description

    def check(self, value):
        """Returns whether `low <= value <= high`."""
        return ops.logical_and(
            ops.greater_equal(value, self.low), ops.less_equal(value, self.high)
        )

    def project(self, value):
        """Returns the nearest number of the interval."""
        return ops.minimum(ops.maximum(value, self.low), self.high)

    def __repr__(self):
        return self.description or f"in [{self.low}, {self.high}]"


class OpenInterval(Constraint):
    """The numbers between `low` and `high`, neither included."""

    def __init__(self, low, high):
        self.low = low
        self.high = high

    def check(self, value):
        """Returns whether `low < value < high`."""
        return ops.logical_and(ops.greater(value, self.low), ops.less(value, self.high))

    def project(self, value):
        """Returns `value` where it is inside, and the midpoint where it is not."""
        return ops.where(self.check(value), value, self._midpoint(value.dtype))

    def _midpoint(self, dtype):
        """The midpoint, where an end is infinite of what is within 2 of the other."""
        low, high = (ops.convert_to_tensor(e, dtype) for e in (self.low, self.high))
        least = ops.where(ops.isinf(high), -1.0, high - 2.0)
        low = ops.where(ops.isinf(low), least, low)
        return 0.5 * (low + ops.where(ops.isinf(high), low + 2.0, high))

    def __repr__(self):
        return f"between {self.low} and {self.high}"


class IntegerInterval(Interval):
    """The whole numbers from `low` to `high`, both included."""

    is_discrete = True

    def check(self, value):
        """Returns whether `value` is whole and `low <= value <= high`."""
        return ops.logical_and(super().check(value), ops.equal(value, ops.round(value)))

    def project(self, value):
        """Returns the nearest whole number of the interval."""
        return super().project(ops.round(value))

    def __repr__(self):
        return self.description or f"a whole number in [{self.low}, {self.high}]"


class Grid(Interval):
    """The values `low`, `low + step`, ... to `high`, as near as floats come to them."""

    is_discrete = True

    def __init__(self, low, high, step):
        super().__init__(low, high)
        self.step = step

    def check(self, value):
        """Returns whether `value` is one of the grid, but for rounding."""
        index = (value - self.low) / self.step
        near = ops.abs(index - ops.round(index)) < 1e-2
        inside = Interval(0, round((self.high - self.low) / self.step))
        return ops.logical_and(inside.check(ops.round(index)), near)

    def project(self, value):
        """Returns the nearest value of the grid."""
        index = ops.round((value - self.low) / self.step)
        return super().project(self.low + index * self.step)


class _NonnegativeInteger(Constraint):
    is_discrete = True
    description = "a nonnegative whole number"

    def check(self, value):
        return ops.logical_and(
            ops.greater_equal(value, 0), ops.equal(value, ops.round(value))
        )

    def project(self, value):
        return ops.maximum(ops.round(value), 0)


class _Simplex(Constraint):
    event_rank = 1
    description = "nonnegative along the last axis, with sum one"

    def check(self, value):
        total = ops.sum(value, axis=-1)
        close = ops.less(ops.abs(total - 1.0), 1e-3)
        return ops.logical_and(close, ops.all(ops.greater_equal(value, 0.0), axis=-1))

    def project(self, value):
        inside = ops.expand_dims(self.check(value), -1)
        return ops.where(inside, value, 1.0 / value.shape[-1])


class _OneHot(Constraint):
    event_rank = 1
    is_discrete = True
    description = "one-hot along the last axis"

    def check(self, value):
        bits = ops.logical_or(ops.equal(value, 0.0), ops.equal(value, 1.0))
        one = ops.equal(ops.sum(value, axis=-1), 1.0)
        return ops.logical_and(one, ops.all(bits, axis=-1))

    def project(self, value):
        return value


class Counts(Constraint):
    """Vectors of nonnegative whole numbers whose sum is `total`."""

    event_rank = 1
    is_discrete = True

    def __init__(self, total):
        self.total = total
        self.description = "whole, nonnegative along the last axis, with the given sum"

    def check(self, value):
        """Returns whether each vector is whole, nonnegative and has the sum."""
        whole = nonnegative_integer.check(value)
        return ops.logical_and(
            ops.all(whole, axis=-1), ops.equal(ops.sum(value, axis=-1), self.total)
        )

    def project(self, value):
        """Returns nonnegative whole numbers; their sum is left as it is."""
        return nonnegative_integer.project(value)


class _LowerTriangular(Constraint):
    event_rank = 2
    description = "a lower triangular matrix with positive diagonal"

    def check(self, value):
        diagonal = ops.diagonal(value, axis1=-2, axis2=-1)
        lower = ops.equal(value, ops.tril(value))
        return ops.logical_and(
            ops.all(lower, axis=(-2, -1)), ops.all(ops.greater(diagonal, 0.0), axis=-1)
        )

    def project(self, value):
        inside = self.check(value)[..., None, None]
        size = value.shape[-1]
        return ops.where(inside, value, ops.eye(size, dtype=value.dtype))


class _Symmetric(Constraint):
    event_rank = 2
    description = "a symmetric matrix, of which no element is NaN"

    def check(self, value):
        # Symmetric but for rounding. Whether it is definite is for who factorizes it.
        asymmetry = ops.max(ops.abs(value - ops.swapaxes(value, -1, -2)), axis=(-2, -1))
        return asymmetry <= 1e-3 * ops.max(ops.abs(value), axis=(-2, -1))

    def project(self, value):
        return 0.5 * (value + ops.swapaxes(value, -1, -2))


class Elementwise(Constraint):
    """Arrays of which each element is in `constraint`, as one value of some rank."""

    def __init__(self, constraint, event_rank):
        self.constraint = constraint
        self.event_rank = event_rank
        self.description = f"{constraint!r} in each element"

    @property
    def is_discrete(self):
        """As the constraint of the elements."""
        return self.constraint.is_discrete

    def check(self, value):
        """Returns whether all elements of each array are in the constraint."""
        inside = self.constraint.check(value)
        return _all(inside, self.event_rank - self.constraint.event_rank)

    def project(self, value):
        """Returns `value` with each element projected."""
        return self.constraint.project(value)


class ImageOf(Constraint):
    """The values of a map, on a set that it is defined on.

    Args:
        constraint: The set that the map is taken of.
        transform: The map, with the contract of `bl.distributions.transforms`.
    """

    def __init__(self, constraint, transform):
        self.constraint = constraint
        self.transform = transform
        rank = max(constraint.event_rank, transform.event_rank)
        self.event_rank = rank - transform.event_rank + transform.output_rank

    @property
    def is_discrete(self):
        """As the set that the map is taken of."""
        return self.constraint.is_discrete

    def check(self, value):
        """Returns whether `value` is reached by the map from a member of the set."""
        image = self.transform.image
        inside = image.check(value)
        before = self.constraint.check(self.transform.reverse(image.project(value)))
        missing = max(self.transform.event_rank - self.constraint.event_rank, 0)
        return ops.logical_and(
            _all(inside, self.event_rank - image.event_rank), _all(before, missing)
        )

    def project(self, value):
        """Returns `value` where it is a member, and the map of a member elsewhere."""
        before = self.transform.reverse(self.transform.image.project(value))
        member = self.transform(self.constraint.project(before))
        inside = self.check(value)
        for _ in range(self.event_rank):
            inside = ops.expand_dims(inside, -1)
        return ops.where(inside, value, member)

    def __repr__(self):
        return f"{type(self.transform).__name__} of a value that is {self.constraint!r}"


def _all(inside, rank):
    """Whether all elements over the last `rank` axes are members."""
    return ops.all(inside, axis=tuple(range(-rank, 0))) if rank else inside


real = _Real()
positive = GreaterThan(0, "positive")
nonnegative = AtLeast(0, "nonnegative")
unit_interval = Interval(0.0, 1.0)
boolean = IntegerInterval(0, 1, "0 or 1")

nonnegative_integer = _NonnegativeInteger()
simplex = _Simplex()
one_hot = _OneHot()
lower_triangular = _LowerTriangular()
symmetric = _Symmetric()
real_vector = Elementwise(real, 1)
positive_vector = Elementwise(positive, 1)
real_matrix = Elementwise(real, 2)
