"""What a head knows of its family: parameters from any real numbers, and facts."""

import functools
import typing

import keras
import numpy as np
from keras import ops

from bayesian_layers.distributions import Distribution, constraints
from bayesian_layers.distributions.transforms import (
    Affine,
    Chain,
    LowerTriangular,
    Softplus,
    Tanh,
    transform_to,
)

# Small against any scale that data have, and large enough for its square and its
# logarithm to be far from the ends of float32.
FLOOR = 1e-5
POSITIVE = Softplus(FLOOR)
# Between -10 and 10, near x where that is small: beyond it a ratio of elements of a
# covariance's factor says nothing more.
RATIO = Chain([Affine(0.0, 0.1), Tanh(), Affine(0.0, 10.0)])
# L = diag(d) (I + A): relative to the diagonal, and bounded, so that no input makes it
# singular.
SCALE_TRIL = LowerTriangular(POSITIVE, RATIO)
ALTERNATIVES = {"logits": "probs", "rate": "log_rate"}


def names_of(family):
    """The parameters of a family, without second ways to give the same one."""
    others = {ALTERNATIVES.get(name) for name in family.parameters}
    return tuple(name for name in family.parameters if name not in others)


def map_to(constraint):
    """The map that makes a head's parameter: as `transform_to`, but with bounded slope.

    A network moves in steps of any size: an exponential would overflow.
    """
    if isinstance(constraint, constraints.Elementwise):
        return map_to(constraint.constraint)
    if constraint is constraints.lower_triangular:
        return SCALE_TRIL
    if isinstance(constraint, constraints.GreaterThan) and constraint.low == 0:
        return POSITIVE
    return transform_to(constraint)


class Facts(typing.NamedTuple):
    """What there is to know of a family's distributions, whatever their parameters.

    `sample_dtype` is `None` for the dtype of the parameters. Families over vectors and
    classes have parameters that are vectors: not each output has its own distribution.
    """

    sample_dtype: str | None
    event_rank: int
    is_vector: bool
    draws_gamma_noise: bool
    conversions: tuple


@functools.cache
def facts(family):
    """Returns the facts of a family, from one of its distributions."""
    arguments = {}
    for name in names_of(family):
        constraint = family.parameters[name]
        zeros = ops.zeros((2,) * constraint.event_rank, "float32")
        arguments[name] = constraint.project(zeros)
    specimen = family(**arguments)
    is_float = keras.backend.is_float_dtype(specimen.dtype)
    # Between the values of a discrete distribution there is none: of ones and zeros,
    # say, the mean is none.
    has = {"sample": True, "mean": is_float and implements(family, "_mean")}
    has["mode"] = implements(family, "_mode")
    return Facts(
        sample_dtype=None if is_float else specimen.dtype,
        event_rank=len(specimen.event_shape),
        is_vector=all(family.parameters[name].event_rank for name in arguments),
        draws_gamma_noise=family.draws_gamma_noise,
        conversions=tuple(name for name, exists in has.items() if exists),
    )


def implements(family, method):
    """Whether a class of distributions has such a method of its own."""
    return getattr(family, method) is not getattr(Distribution, method)


@keras.saving.register_keras_serializable("bayesian_layers.layers")
class CalmStart(keras.initializers.Initializer):
    """Glorot's uniform initializer, with a factor for each column.

    Args:
        factors: A number for each column of the kernel.
    """

    def __init__(self, factors):
        self.factors = list(factors)

    def __call__(self, shape, dtype=None):
        """Returns the kernel."""
        kernel = keras.initializers.GlorotUniform()(shape, dtype=dtype)
        return kernel * ops.convert_to_tensor(np.array(self.factors), kernel.dtype)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {"factors": self.factors}
