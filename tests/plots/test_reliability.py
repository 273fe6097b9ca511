"""The bars of a reliability diagram, against a loop over predictions."""

import numpy as np
import pytest

import bayesian_layers as bl
from tests.plots.predictions import labels, of_classes

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(4, 0.5), size=(3, 200)).astype("float32")
MEAN = PROBS.mean(axis=0)
Y = RNG.integers(4, size=200)


def loop(confidence, correct, num_bins):
    """Counts, accuracies and mean confidences of bins, and the error."""
    members = [[] for _ in range(num_bins)]
    for c, right in zip(confidence, correct, strict=True):
        members[min(int(c * num_bins), num_bins - 1)].append((c, right))
    table = [
        (len(m), *np.mean(m, axis=0)[::-1]) if m else (0, np.nan, np.nan)
        for m in members
    ]
    gaps = [count * abs(a - c) for count, a, c in table if count]
    return np.array(table).T, np.sum(gaps) / len(confidence)


def assert_drawn(ax, confidence, correct, num_bins):
    (counts, accuracy, mean), error = loop(confidence, correct, num_bins)
    filled = counts > 0
    bars, gaps = ax.containers
    low = np.arange(num_bins)[filled] / num_bins
    np.testing.assert_allclose([bar.get_x() for bar in bars], low, atol=1e-6)
    widths = [bar.get_width() for bar in [*bars, *gaps]]
    np.testing.assert_allclose(widths, 1.0 / num_bins)
    np.testing.assert_allclose([bar.get_height() for bar in bars], accuracy[filled])
    ends = [sorted((g.get_y(), g.get_y() + g.get_height())) for g in gaps]
    expected = np.sort(np.stack([accuracy, mean], axis=1)[filled], axis=1)
    np.testing.assert_allclose(ends, expected, atol=1e-6)
    [above] = ax.child_axes
    assert [bar.get_height() for bar in above.patches] == counts.tolist()
    assert labels(ax) == ["ideal", "accuracy", f"gap, ECE {error:.3f}"]
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)
    # What is drawn amounts to the error.
    heights = np.array([gap.get_height() for gap in gaps])
    drawn = np.sum(heights * counts[filled]) / len(confidence)
    np.testing.assert_allclose(drawn, error, atol=1e-6)
    return error


GIVEN = {
    "prediction": (Y, of_classes(PROBS)),
    "probabilities": (Y[:, None], MEAN),
    "one-hot": (np.eye(4)[Y], MEAN),
    "one-hot head": (
        np.eye(4)[Y],
        of_classes(PROBS, bl.distributions.OneHotCategorical),
    ),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("num_bins", [15, 7])
def test_bars_and_gaps_are_those_of_the_bins(given, num_bins):
    ax = bl.plots.reliability(*GIVEN[given], num_bins=num_bins)
    error = assert_drawn(ax, MEAN.max(-1), MEAN.argmax(-1) == Y, num_bins)
    metric = bl.metrics.ExpectedCalibrationError(num_bins=num_bins)
    np.testing.assert_allclose(float(metric(*GIVEN[given])), error, atol=1e-6)


@pytest.mark.parametrize("shape", [(200,), (200, 1), (100, 2)])
def test_numbers_that_are_0_or_1_are_two_classes(shape):
    p, y = MEAN[:, 0], (Y == 0).astype("int32")
    prediction = of_classes(
        np.reshape(PROBS[..., 0], (3, *shape)), bl.distributions.Bernoulli
    )
    p = prediction.probs.ravel()
    ax = bl.plots.reliability(y.reshape(shape), prediction, num_bins=15)
    error = assert_drawn(ax, np.maximum(p, 1.0 - p), (p > 0.5) == y, 15)
    metric = bl.metrics.ExpectedCalibrationError()
    np.testing.assert_allclose(
        float(metric(y.reshape(shape), prediction)), error, atol=1e-6
    )
    if shape != (100, 2):
        ax = bl.plots.reliability(y, p.reshape(shape))
        assert_drawn(ax, np.maximum(p, 1.0 - p), (p > 0.5) == y, 15)


def test_the_ends_of_bins_belong_to_the_bin_above_and_1_to_the_last():
    p = np.array([0.5, 0.75, 1.0], "float32")
    ax = bl.plots.reliability([1, 0, 1], p, num_bins=4)
    assert_drawn(ax, p, [False, False, True], 4)
    [above] = ax.child_axes
    assert [bar.get_height() for bar in above.patches] == [0, 0, 1, 2]


def test_a_prediction_without_samples_will_do_and_counts_are_optional():
    prediction = bl.Prediction(of_classes(PROBS)._moments)
    ax = bl.plots.reliability(Y, prediction, counts=False)
    assert not ax.child_axes


BAD = {
    "no class": ((Y + 1, MEAN), {}, ValueError, "labels from 0 to 3"),
    "logits": ((Y, 3.0 * MEAN), {}, ValueError, "probs"),
    "NaN": ((Y, np.nan * MEAN), {}, ValueError, "not finite"),
    "none": ((Y[:0], MEAN[:0]), {}, ValueError, "at least one number"),
    "fewer": ((Y[1:], MEAN), {}, ValueError, "y_true.shape"),
    "bins": ((Y, MEAN), {"num_bins": 0}, ValueError, "at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    args, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.reliability(*args, **kwargs)
