"""The contract of invertible maps."""

import keras
from keras import ops

from bayesian_layers.distributions import constraints

register = keras.saving.register_keras_serializable("bayesian_layers.transforms")


class Map:
    """An invertible map that knows how it changes volumes.

    A subclass writes two methods, each the map and its log-determinant in one go,

    - `forward_and_log_det(x)`: y and log |det dy / dx|;
    - `reverse_and_log_det(y)`: x and log |det dx / dy|, the negative of the former,

    and has `map(x)`, `reverse` and `log_det_jacobian` from them, or writes one of
    these too where it is cheaper alone. It states `event_rank`, the number of trailing
    axes that it acts on together (zero for elementwise maps): a log-determinant has
    the shape of the input without these. A layer with weights can be a map as well:
    `class MyLayer(Map, keras.Layer)`, whose `call` is `forward_and_log_det(x)[0]`.

    A map that changes shapes states `output_rank`, the number of axes that it makes of
    those, and `forward_shape` and `reverse_shape`.
    """

    event_rank = 0
    domain = constraints.real
    image = constraints.real
    # Whether it holds tensors, as leaves of a pytree; it then has `map_tensors`.
    is_pytree = False

    @property
    def output_rank(self):
        """The number of trailing axes of the output that belong together."""
        return self.event_rank

    def forward_and_log_det(self, x):
        """Returns y and log |det dy / dx|."""
        raise NotImplementedError

    def reverse_and_log_det(self, y):
        """Returns the x that is mapped to y, and log |det dx / dy|."""
        raise NotImplementedError

    def reverse(self, y):
        """Returns the x that is mapped to y."""
        return self.reverse_and_log_det(y)[0]

    def log_det_jacobian(self, x):
        """Returns log |det dy / dx|, at the input x."""
        return self.forward_and_log_det(x)[1]

    def recall(self, y):
        """Returns x and log |det dy / dx| if they are known already, or `None`.

        A map that has just made y need not be reversed to tell where it came from.
        """
        return None

    def forward_shape(self, shape):
        """Returns the shape of y for an x of this shape."""
        return tuple(shape)

    def reverse_shape(self, shape):
        """Returns the shape of x for a y of this shape."""
        return tuple(shape)


class Transform(Map):
    """Base of the maps without weights.

    A subclass writes `forward_and_log_det` and `reverse_and_log_det`, says what its
    `image` is, a constraint, and is registered for Keras' serialization with its
    constructor's arguments from `get_config`. Two transforms are equal if they are of
    one class and have equal numbers; tensors are equal to themselves only.

    Example:
    >>> class Square(bl.distributions.transforms.Transform):
    ...     image = domain = bl.distributions.constraints.positive
    ...
    ...     def forward_and_log_det(self, x):
    ...         return ops.square(x), ops.log(2.0 * x)
    ...
    ...     def reverse_and_log_det(self, y):
    ...         return ops.sqrt(y), -ops.log(2.0 * ops.sqrt(y))
    >>> float(Square()(3.0)), float(Square().reverse(9.0))
    (9.0, 3.0)
    """

    def __call__(self, x):
        """Returns y."""
        return self.forward_and_log_det(x)[0]

    def __eq__(self, other):
        if type(self) is not type(other):
            return False
        mine, others = vars(self), vars(other)
        return mine.keys() == others.keys() and all(
            _equal(value, others[name]) for name, value in mine.items()
        )

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"

    def get_config(self):
        """Returns the constructor's arguments."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes a transform from what `get_config` returned."""
        return cls(
            **{
                name: keras.saving.deserialize_keras_object(value)
                for name, value in config.items()
            }
        )


def _equal(a, b):
    return a is b or (isinstance(a, (int, float, tuple, Map)) and a == b)


def sum_last(log_det, rank):
    """The log-determinant of independent maps along the last `rank` axes."""
    return ops.sum(log_det, axis=tuple(range(-rank, 0))) if rank else log_det
