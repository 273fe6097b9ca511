"""Shapes as tuples: of integers, of `None` where unknown, of tensors where dynamic."""

import operator

from keras import ops


def standardize(shape):
    """Returns a sample shape, given as an integer or as a sequence, as a tuple."""
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(shape)


def static(x):
    """Returns the shape of a tensor or variable, with `None` for unknown sizes."""
    return tuple(x.shape)


def broadcast(*shapes):
    """Returns the shape that the arguments broadcast to.

    Sizes may be `None`, or scalar tensors as `keras.ops.shape` gives them inside a
    `tf.function`.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_broadcast_sizes(sizes, shapes) for sizes in zip(*padded, strict=True))


def _broadcast_sizes(sizes, shapes):
    known = {size for size in sizes if isinstance(size, int) and size != 1}
    if len(known) > 1:
        raise ValueError(
            "Expected shapes that broadcast together. Received: "
            + ", ".join(str(tuple(shape)) for shape in shapes)
        )
    if known:
        return known.pop()
    dynamic = [size for size in sizes if not isinstance(size, int)]
    if not dynamic:
        return 1
    if any(size is None for size in dynamic):
        return None
    result = dynamic[0]
    if not ops.is_tensor(result):
        return result  # A symbol, in JAX's tracing of shapes: it compares them itself.
    for size in dynamic[1:]:
        result = ops.maximum(result, size)
    return result


def matches(shape, expected):
    """Whether two static shapes are equal where both are known."""
    return len(shape) == len(expected) and all(
        a is None or b is None or a == b for a, b in zip(shape, expected, strict=True)
    )
