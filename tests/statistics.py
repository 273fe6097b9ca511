"""Statistical assertions with a stated error rate and a stated power.

Each assertion fails on a right sampler with a probability of at most
`FALSE_FAILURE_RATE` (over all columns of the samples together), and each is told by
`detect` the smallest error that it must see: if the sample is so small, or so noisy,
that an error of that size would be missed with a probability above `MISS_RATE`, it
fails too. A wrong sampler cannot hide in the noise that it makes itself.

Samples have shape `[n, ...]`, draws along the first axis; the other axes are columns
that are tested together, at Bonferroni's level.
"""

import numpy as np
from scipy import stats

FALSE_FAILURE_RATE = 1e-7
MISS_RATE = 1e-3


def assert_mean(samples, expected, *, detect):
    """The mean of the samples is `expected`.

    Args:
        samples: Of shape `[n, ...]`.
        expected: The mean of each column.
        detect: The smallest error of the mean that must be seen; per column or one.
    """
    samples = _finite(samples)
    expected = np.broadcast_to(expected, samples.shape[1:])
    standard_error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    # Rounding errors, which remain where there is no variance, are no errors.
    standard_error = np.maximum(standard_error, 1e-3 * np.asarray(detect))
    width = stats.norm.isf(0.5 * FALSE_FAILURE_RATE / max(expected.size, 1))
    needed = (width + stats.norm.isf(MISS_RATE)) * standard_error
    _assert_power(needed, detect)
    error = (samples.mean(axis=0) - expected) / standard_error
    worst = np.max(np.abs(error))
    assert worst <= width, (
        f"The mean is {worst:.1f} standard errors off (allowed: {width:.1f}).\n"
        f"mean: {samples.mean(axis=0)}\nexpected: {expected}\n"
        f"standard error: {standard_error}"
    )


def assert_variance(samples, expected, *, detect):
    """The variance of the samples is `expected`.

    Args:
        samples: Of shape `[n, ...]`; their fourth moment has to exist.
        expected: The variance of each column.
        detect: The smallest error of the variance that must be seen.
    """
    samples = _finite(samples)
    count = len(samples)
    squares = np.square(samples - samples.mean(axis=0)) * count / (count - 1)
    assert_mean(squares, expected, detect=detect)


def assert_distributed_as(samples, cdf, *, detect):
    """The samples have the continuous distribution function `cdf`.

    By the Kolmogorov-Smirnov test.

    Args:
        samples: Of shape `[n, ...]`.
        cdf: A function from an array of that shape to one of that shape.
        detect: The smallest distance sup |F - cdf| that must be seen.
    """
    samples = np.sort(_finite(samples), axis=0)
    count, columns = len(samples), max(samples[0].size, 1)
    width = stats.kstwo.isf(FALSE_FAILURE_RATE / columns, count)
    # The empirical distribution function at one point is within this of the true one
    # (Hoeffding): a distribution as far off as `detect` shows beyond `width`.
    _assert_power(width + np.sqrt(-np.log(MISS_RATE) / (2 * count)), detect)
    steps = np.arange(count + 1).reshape((-1,) + (1,) * (samples.ndim - 1)) / count
    expected = cdf(samples)
    distance = np.maximum(steps[1:] - expected, expected - steps[:-1]).max(axis=0)
    assert np.max(distance) <= width, (
        f"The distribution function is {np.max(distance):.4f} off (allowed: "
        f"{width:.4f}), by column: {distance}"
    )


def assert_counts(samples, probabilities, *, detect):
    """The samples, whole numbers from 0, have the given probabilities.

    By the chi-square test.

    Args:
        samples: Of shape `[n]`.
        probabilities: The probability of 0, 1, ...; what is missing to one belongs to
            all higher numbers together.
        detect: The smallest total variation distance that must be seen.
    """
    samples = _finite(samples)
    assert samples.ndim == 1 and np.all(samples == np.round(samples))
    assert np.all(samples >= 0), f"There are negative numbers: {samples.min()}"
    observed, expected = _cells(samples.astype(int), np.asarray(probabilities))
    degrees = len(expected) - 1
    width = stats.chi2.isf(FALSE_FAILURE_RATE, degrees)
    # An alternative at distance d has a noncentrality of at least n (2 d)^2.
    seen = stats.ncx2.sf(width, degrees, len(samples) * 4 * detect**2)
    assert seen >= 1 - MISS_RATE, (
        f"{len(samples)} samples see a distance of {detect} with a probability of "
        f"{seen:.3f} only. Take more of them."
    )
    statistic = np.sum(np.square(observed - expected) / expected)
    assert statistic <= width, (
        f"chi-square is {statistic:.1f} (allowed: {width:.1f} at {degrees} degrees of "
        f"freedom).\nobserved: {observed}\nexpected: {expected}"
    )


def assert_uncorrelated(first, second, *, detect):
    """The columns of two samples, draw by draw, have rank correlation zero.

    Args:
        first: Of shape `[n, ...]`.
        second: Of the same shape.
        detect: The smallest correlation that must be seen.
    """
    first, second = (_standardized_ranks(x) for x in (first, second))
    assert_mean(first * second, 0.0, detect=detect)


def _standardized_ranks(samples):
    ranks = stats.rankdata(_finite(samples), axis=0)
    return (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)


def _cells(samples, probabilities):
    """Observed and expected counts, rare values in one cell."""
    count, size = len(samples), len(probabilities)
    rest = 1.0 - probabilities.sum()
    rest = 0.0 if abs(rest) < 1e-6 else rest
    probabilities = np.append(probabilities, rest)
    observed = np.bincount(np.minimum(samples, size), minlength=size + 1)
    impossible = np.flatnonzero(observed * (probabilities == 0.0))
    assert impossible.size == 0, f"Values of probability zero: {impossible}"
    expected = count * probabilities
    rare = expected < 25.0
    if rare.any():
        # With the smallest of the others, so that the cell is not a rare one itself.
        rare[np.argmin(np.where(rare, np.inf, expected))] = True
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return observed, expected


def _finite(samples):
    samples = np.asarray(samples, "float64")
    assert np.all(np.isfinite(samples)), "There are samples that are not finite."
    return samples


def _assert_power(needed, detect):
    assert np.all(needed <= detect), (
        f"The samples can see errors from {np.max(needed):.3g} on; asked for: "
        f"{np.min(detect):.3g}. Take more of them."
    )
