"""The arguments of a distribution: standardized, read, taken apart and put together."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend


def common_dtype(values):
    """The dtype of a computation with these values: floating, float32 or better."""
    values = [v.value if isinstance(v, keras.Variable) else v for v in values]
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    if any(ops.is_tensor(v) and "float64" in str(v.dtype) for v in values):
        # Keras' rules make float32 of it on JAX and PyTorch, as is right for arrays of
        # NumPy, which are float64 unasked. A tensor of float64 was asked for.
        return "float64"
    dtype = (
        keras.backend.result_type(*dtypes, float) if dtypes else keras.config.floatx()
    )
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def standardize_parameter(value, dtype, name, distribution):
    """Returns a parameter as a tensor; a Keras variable stays what it is."""
    if isinstance(value, keras.KerasTensor):
        raise ValueError(
            f"{type(distribution).__name__} expects numbers, arrays or tensors. "
            f"Received a symbolic tensor: {name}={value}. Make the distribution inside "
            "of a layer's `call`, where there are numbers."
        )
    if isinstance(value, keras.Variable):
        return value
    if not any(hasattr(part, "dtype") for part in keras.tree.flatten(value)):
        value = np.asarray(value)
        if value.dtype.kind not in "fiub":
            raise ValueError(
                f"{type(distribution).__name__} expects `{name}` to be numeric. "
                f"Received: {name}={value!r}"
            )
    if isinstance(value, (np.ndarray, np.generic)):
        # Numbers stay numbers: a prior that is made while a layer is built may be made
        # in a trace, which ends before the prior does.
        return backend.constant(value, dtype)
    return ops.convert_to_tensor(value, dtype)


def is_tensor(value):
    """Whether a stored parameter is a tensor or a Keras variable."""
    return isinstance(value, keras.Variable) or ops.is_tensor(value)


def parameter_property(name):
    """Returns the property of a distribution that reads a parameter."""
    return property(
        lambda self: self._parameter(name), doc=f"The parameter `{name}`, a tensor."
    )


def flatten(distribution):
    """Takes a distribution apart: tensors and distributions, and all else."""
    if distribution._is_whole():
        distribution = distribution._aligned()
    arguments = distribution._arguments
    names = tuple(
        name
        for name, value in arguments.items()
        if value is not None
        and (
            name in distribution.parameters
            or hasattr(value, "_arguments")
            or getattr(value, "is_pytree", False)
        )
    )
    # A variable stands for its value; JAX may have put anything else into a leaf.
    leaves = tuple(
        value.value if isinstance(value, keras.Variable) else value
        for value in map(arguments.get, names)
    )
    rest = tuple((n, value) for n, value in arguments.items() if n not in names)
    return leaves, (names, rest)


def unflatten(cls, aux, leaves):
    """Puts a distribution together again, without looking at its arguments."""
    names, rest = aux
    return cls.rebuild({**dict(rest), **dict(zip(names, leaves, strict=True))})
