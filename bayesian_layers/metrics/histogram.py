"""Histograms of floating numbers, in cells of one relative width."""

import numpy as np
from keras import ops

# A float32 has 23 bits of mantissa. The first 12 tell cells apart: a cell is at most
# 2^-12 as wide as the numbers in it are large.
DROPPED_BITS = 11
# Numbers of a size from 2^-64 to 2^64 are told apart, of each sign.
NUM_OCTAVES = 128
SMALLEST = 2.0**-64
NUM_SIZES = NUM_OCTAVES << (23 - DROPPED_BITS)
NUM_CELLS = 2 * NUM_SIZES


def cells_of(x):
    """Returns the cells, integers below `NUM_CELLS`, of any real numbers.

    A larger number never has a smaller cell. Read as integers, the bits of positive
    floating numbers are in the order of these.
    """
    x = ops.cast(x, "float32")
    # TensorFlow has to know the size of the last axis.
    bits = ops.view(ops.abs(x)[..., None], "int32")[..., 0]
    bits = ops.clip(bits - _bits(SMALLEST), 0, (NUM_OCTAVES << 23) - 1)
    sizes = ops.bitwise_right_shift(bits, DROPPED_BITS)
    return NUM_SIZES + ops.where(x < 0.0, -1 - sizes, sizes)


def cell_of(number):
    """As `cells_of`, of one positive Python number that is told apart."""
    return NUM_SIZES + ((_bits(number) - _bits(SMALLEST)) >> DROPPED_BITS)


def _bits(number):
    return int(np.float32(number).view("int32"))


def sum_by_cell(values, cells, num_cells):
    """Returns the sum of the values in each cell."""
    values, cells = ops.reshape(values, (-1,)), ops.reshape(cells, (-1,))
    return ops.segment_sum(values, cells, num_segments=num_cells)
