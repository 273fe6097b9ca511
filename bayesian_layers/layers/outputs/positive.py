"""Positive parameters from any real number."""

from keras import ops

# Small against any scale that data have, and large enough for its square and its
# logarithm to be far from the ends of float32.
FLOOR = 1e-5


def positive(x):
    """Returns softplus(x), kept above a small number."""
    return ops.softplus(x) + FLOOR
