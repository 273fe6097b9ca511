"""Timing of functions that are called in turns, in one run."""

import time

import numpy as np


def median_times(functions, repeats=40, quantile=0.5):
    """The median times of functions without arguments, which wait for their result.

    They are called in turns, so that whatever else the machine does falls on all. On a
    machine that does much else a lower quantile tells more: it only ever adds.
    """
    for function in functions:
        function()
    times = np.zeros((repeats, len(functions)))
    for i in range(repeats):
        for j, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[i, j] = time.perf_counter() - start
    return np.quantile(times, quantile, axis=0)
