"""Maps made from other maps."""

import keras

from bayesian_layers.distributions import constraints
from bayesian_layers.distributions.transforms.contract import (
    Map,
    Transform,
    register,
    sum_last,
)


def _check_map(value, user):
    if not isinstance(value, Map):
        raise TypeError(
            f"{user} expects invertible maps, as in `bl.distributions.transforms`. "
            f"Received: {value!r}"
        )


@register
class Chain(Transform):
    """One map after another: the first one first.

    Args:
        transforms: The maps, in the order in which they are applied; at least one.

    Example:
    >>> transforms = bl.distributions.transforms
    >>> chain = transforms.Chain([transforms.Affine(1.0, 2.0), transforms.Exp()])
    >>> round(float(chain.reverse(chain(0.5))), 4)
    0.5
    """

    def __init__(self, transforms):
        if not transforms:
            raise ValueError("Chain expects at least one map. Received: none.")
        for transform in transforms:
            _check_map(transform, "Chain")
        self.transforms = tuple(transforms)

    @property
    def event_rank(self):
        """The number of trailing axes of the input that belong together."""
        rank = 0
        for transform in reversed(self.transforms):
            change = transform.event_rank - transform.output_rank
            rank = max(rank + change, transform.event_rank)
        return rank

    @property
    def output_rank(self):
        """The number of trailing axes of the output that belong together."""
        return self.event_rank + sum(
            transform.output_rank - transform.event_rank
            for transform in self.transforms
        )

    @property
    def domain(self):
        """Where the first map is defined."""
        return self.transforms[0].domain

    @property
    def image(self):
        """The values of the maps on what the earlier ones reach."""
        image = self.transforms[0].image
        for transform in self.transforms[1:]:
            image = constraints.ImageOf(image, transform)
        return image

    def __getattr__(self, name):
        # Absent, as in any map that is not monotone, unless all of the parts have it.
        if name == "increasing":
            parts = [part.increasing for part in vars(self)["transforms"]]
            return parts.count(False) % 2 == 0
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __call__(self, x):
        """Returns the value of the last map."""
        for transform in self.transforms:
            x = transform(x)
        return x

    def reverse(self, y):
        """Returns the x that the maps take to y."""
        for transform in reversed(self.transforms):
            y = transform.reverse(y)
        return y

    def forward_and_log_det(self, x):
        """Returns the value of the last map, and the sum of the log-determinants."""
        rank, total = self.event_rank, 0.0
        for transform in self.transforms:
            x, log_det = transform.forward_and_log_det(x)
            total = total + sum_last(log_det, rank - transform.event_rank)
            rank += transform.output_rank - transform.event_rank
        return x, total

    def reverse_and_log_det(self, y):
        """Returns the x that the maps take to y, and the sum of log-determinants."""
        rank, total = self.output_rank, 0.0
        for transform in reversed(self.transforms):
            y, log_det = transform.reverse_and_log_det(y)
            total = total + sum_last(log_det, rank - transform.output_rank)
            rank += transform.event_rank - transform.output_rank
        return y, total

    def forward_shape(self, shape):
        """Returns the shape of the last map's value."""
        for transform in self.transforms:
            shape = transform.forward_shape(shape)
        return shape

    def reverse_shape(self, shape):
        """Returns the shape of the first map's input."""
        for transform in reversed(self.transforms):
            shape = transform.reverse_shape(shape)
        return shape

    def get_config(self):
        """Returns the constructor's arguments."""
        parts = [keras.saving.serialize_keras_object(part) for part in self.transforms]
        return {"transforms": parts}


class _Wrapper(Transform):
    """Base of maps made from one other."""

    def __init__(self, transform):
        _check_map(transform, type(self).__name__)
        self.transform = transform

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"transform": keras.saving.serialize_keras_object(self.transform)}


@register
class Reverse(_Wrapper):
    """A map the other way round.

    Args:
        transform: The map.

    Example:
    >>> log = bl.distributions.transforms.Reverse(bl.distributions.transforms.Exp())
    >>> round(float(log(1.0)), 4)
    0.0
    """

    event_rank = property(lambda self: self.transform.output_rank)
    output_rank = property(lambda self: self.transform.event_rank)
    domain = property(lambda self: self.transform.image)
    image = property(lambda self: self.transform.domain)
    # An AttributeError says that it is not monotone.
    increasing = property(lambda self: self.transform.increasing)

    def __call__(self, x):
        """Returns what the map takes to x."""
        return self.transform.reverse(x)

    def reverse(self, y):
        """Returns the value of the map at y."""
        return self.transform(y)

    def forward_and_log_det(self, x):
        """Returns what the map takes to x, and the log-determinant."""
        return self.transform.reverse_and_log_det(x)

    def reverse_and_log_det(self, y):
        """Returns the value of the map at y, and its log-determinant."""
        return self.transform.forward_and_log_det(y)

    def forward_shape(self, shape):
        """Returns the shape of the map's input."""
        return self.transform.reverse_shape(shape)

    def reverse_shape(self, shape):
        """Returns the shape of the map's value."""
        return self.transform.forward_shape(shape)


@register
class Elementwise(_Wrapper):
    """A map of each element of an array, as one map of the array.

    Args:
        transform: The map.
        event_rank: The number of trailing axes of the input that are one array, at
            least as many as the map acts on.

    Example:
    >>> transforms = bl.distributions.transforms
    >>> vectors = transforms.Elementwise(transforms.Exp(), event_rank=1)
    >>> ops.shape(vectors.log_det_jacobian(np.zeros((4, 3), "float32")))
    (4,)
    """

    event_rank = 0

    def __init__(self, transform, event_rank):
        super().__init__(transform)
        if event_rank < transform.event_rank:
            raise ValueError(
                "Elementwise expects `event_rank` to be at least that of the map. "
                f"Received: event_rank={event_rank} for {transform}"
            )
        self.event_rank = event_rank

    @property
    def _extra(self):
        return self.event_rank - self.transform.event_rank

    @property
    def output_rank(self):
        """The number of trailing axes of the output that are one array."""
        return self.transform.output_rank + self._extra

    @property
    def domain(self):
        """Arrays of elements where the map is defined."""
        return constraints.Elementwise(self.transform.domain, self.event_rank)

    @property
    def image(self):
        """Arrays of elements of the image of the map."""
        return constraints.Elementwise(self.transform.image, self.output_rank)

    def __call__(self, x):
        """Returns the value of the map at each element."""
        return self.transform(x)

    def reverse(self, y):
        """Returns what the map takes to each element."""
        return self.transform.reverse(y)

    def forward_and_log_det(self, x):
        """Returns the value at each element, and the sum of the log-determinants."""
        y, log_det = self.transform.forward_and_log_det(x)
        return y, sum_last(log_det, self._extra)

    def reverse_and_log_det(self, y):
        """Returns what the map takes to each element, and the sum likewise."""
        x, log_det = self.transform.reverse_and_log_det(y)
        return x, sum_last(log_det, self._extra)

    def forward_shape(self, shape):
        """Returns the shape of the map's value."""
        return self.transform.forward_shape(shape)

    def reverse_shape(self, shape):
        """Returns the shape of the map's input."""
        return self.transform.reverse_shape(shape)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "event_rank": self.event_rank}
