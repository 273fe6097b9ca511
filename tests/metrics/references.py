"""Metrics as NumPy loops and integrals."""

import numpy as np
from scipy import integrate, stats
from sklearn.metrics import roc_curve


def expected_calibration_error(labels, probs, num_bins=15):
    confidence, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    error = 0.0
    for low in np.arange(num_bins) / num_bins:
        inside = (confidence >= low) & (confidence < low + 1 / num_bins)
        if low + 1 / num_bins >= 1.0 - 1e-9:
            inside = confidence >= low
        if inside.any():
            gap = abs(right[inside].mean() - confidence[inside].mean())
            error += inside.mean() * gap
    return error


def adaptive_calibration_error(labels, probs, num_bins=15):
    """Bins of equal mass: an example on an edge is in both, in parts."""
    confidence, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    # Examples of equal confidence are alike: each has the mean of their outcomes.
    values, group = np.unique(confidence, return_inverse=True)
    right = np.array([right[group == g].mean() for g in range(len(values))])[group]
    order = np.argsort(confidence)
    gaps = (right - confidence)[order]
    mass = np.arange(len(labels) + 1)
    edges = np.linspace(0.0, len(labels), num_bins + 1)
    return np.abs(np.diff(np.interp(edges, mass, [0, *np.cumsum(gaps)]))).sum() / len(
        labels
    )


def classwise_calibration_error(labels, probs, num_bins=15):
    errors = []
    for k in range(probs.shape[1]):
        bins = np.minimum((probs[:, k] * num_bins).astype(int), num_bins - 1)
        gaps = [
            abs(np.sum((labels == k)[bins == b]) - np.sum(probs[bins == b, k]))
            for b in range(num_bins)
        ]
        errors.append(np.sum(gaps) / len(labels))
    return np.mean(errors)


def crps_of_normal_mixtures(y, loc, scale):
    """By numerical integration, for mixtures over the first axis of `loc`."""
    y, loc, scale = (np.asarray(x, "float64") for x in (y, loc, scale))

    def integrand(distance):
        below = stats.norm.cdf(y - distance, loc, scale).mean(axis=0)
        above = stats.norm.sf(y + distance, loc, scale).mean(axis=0)
        return below**2 + above**2

    return integrate.quad_vec(integrand, 0.0, 40.0, epsrel=1e-6)[0].mean()


def fair_crps(y, samples):
    """The estimator as it is written, for one number."""
    count = len(samples)
    pairs = sum(abs(a - b) for a in samples for b in samples)
    return np.mean(np.abs(samples - y)) - pairs / (2 * count * (count - 1))


def fpr95(flags, scores):
    fpr, tpr, _ = roc_curve(flags, scores, drop_intermediate=False)
    return fpr[tpr >= 0.95].min()


def mutual_information(draws):
    """Of probabilities `[S, B, classes]`."""
    entropy = stats.entropy(draws.mean(axis=0), axis=-1)
    return np.mean(entropy - stats.entropy(draws, axis=-1).mean(axis=0))
