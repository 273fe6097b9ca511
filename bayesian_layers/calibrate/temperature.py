"""The temperature of the highest likelihood, found on the host."""

import numpy as np

from bayesian_layers.prediction.prediction import BLOCK_BYTES

# Where 1 / temperature is sought, times the distance between the logits of a class and
# of another: from almost no difference in probability to certainty.
GRID = 4.0 ** np.arange(-7, 8)
MOST_STEPS = 200
# Of 1 / temperature, and of likelihoods that are taken for equal: relative to them.
PRECISION = 1e-10


def best_temperature(logits, labels):
    """Returns the T > 0 of the least mean of -log mean_s softmax(logits_s / T)[label].

    For one draw s that is convex in 1 / T, and the minimum is the only one. For several
    it need not be: the minimum is the one next to the best T of a grid. Newton's method
    finds it, with bisection where a step would leave the bracket.

    Args:
        logits: An array `[draws, n, classes]`.
        labels: An array `[n]` of integers.

    Raises:
        ValueError: If the likelihood is the higher, the smaller, or the larger, T is.
    """
    grid = GRID / _spread(logits)
    values = np.array([_loss(logits, labels, beta)[0] for beta in grid])
    best = int(np.argmin(values))
    least = values[best] * (1.0 + PRECISION)
    if values[-1] <= least:
        raise ValueError(_SEPARABLE.format(count=len(labels)))
    if values[0] <= least:
        raise ValueError(_CHANCE.format(count=len(labels)))
    low, middle, high = grid[best - 1 : best + 2]
    return 1.0 / _minimum(lambda b: _loss(logits, labels, b), low, middle, high)


_SEPARABLE = (
    "There is no best temperature above 0: the lower it is, the higher is the "
    "likelihood, as the model is right, or almost, on all of the examples. Take more "
    "examples, which the model was not trained on. Received: {count} labels"
)
_CHANCE = (
    "There is no best temperature: the higher it is, the higher is the likelihood, as "
    "the model predicts the labels no better than chance. Are these the labels of the "
    "examples, in their order, and does `from_logits` say what the outputs are? "
    "Received: {count} labels"
)


def _spread(logits):
    """How far the logits of an example are typically from each other."""
    ranges = np.ptp(logits, axis=-1).astype("float64")
    ranges = ranges[ranges > 0.0]
    if not ranges.size:
        raise ValueError(
            "A temperature cannot change logits that are the same for all classes. "
            f"Received: logits of shape {logits.shape}, each with equal entries"
        )
    return float(np.median(ranges))


def _minimum(loss, low, beta, high):
    """Where the slope of a loss is 0, between two numbers of which one is below it."""
    for _ in range(MOST_STEPS):
        _, slope, curvature = loss(beta)
        low, high = (beta, high) if slope < 0.0 else (low, beta)
        step = beta - slope / curvature if curvature > 0.0 else low
        step = step if low < step < high else 0.5 * (low + high)
        if abs(step - beta) <= PRECISION * beta:
            return step
        beta = step
    return beta


def _loss(logits, labels, beta):
    """The mean of -log mean_s softmax(beta logits_s)[label], and two derivatives."""
    count = len(labels)
    rows = max(1, BLOCK_BYTES * count // (8 * logits.size))
    totals = np.zeros(3)
    for start in range(0, count, rows):
        block = slice(start, start + rows)
        totals += _sums(logits[:, block].astype("float64"), labels[block], beta)
    return totals / count


def _sums(logits, labels, beta):
    """The sums over examples, of logits `[draws, n, classes]`."""
    logits -= np.max(logits, axis=-1, keepdims=True)
    weights = np.exp(beta * logits)
    totals = np.sum(weights, axis=-1)
    weights /= totals[..., None]
    mean = np.sum(weights * logits, axis=-1)
    variance = np.sum(weights * np.square(logits - mean[..., None]), axis=-1)
    of_label = logits[:, np.arange(len(labels)), labels]
    log_probs, slopes = beta * of_label - np.log(totals), of_label - mean
    # The logarithm of the mean over draws: these count as they predict the label.
    largest = np.max(log_probs, axis=0)
    shares = np.exp(log_probs - largest)
    mixed = largest + np.log(np.mean(shares, axis=0))
    shares /= np.sum(shares, axis=0)
    slope = np.sum(shares * slopes, axis=0)
    curvature = np.sum(shares * (slopes**2 - variance), axis=0) - slope**2
    return -np.array([np.sum(mixed), np.sum(slope), np.sum(curvature)])
