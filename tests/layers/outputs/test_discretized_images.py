"""The discretized logistic mixture of 8-bit images, against slow sums in float64.

The reference takes each bin from the tail it lies in, in extended precision by
`scipy.special`, and mixes by `logsumexp`: nothing is subtracted that could cancel.
"""

import keras
import numpy as np
import pytest
from scipy import special

import bayesian_layers as bl
from tests.differentiation import run

COMPONENTS = 3
VALUES = np.linspace(-1.0, 1.0, 256)


def slow_log_prob(logits, loc, scale, index):
    """log P of one value of one pixel."""
    half = 0.5 * (VALUES[1] - VALUES[0])
    terms = []
    for log_weight, m, s in zip(special.log_softmax(logits), loc, scale, strict=True):
        below, above = (VALUES[index] - half - m) / s, (VALUES[index] + half - m) / s
        if index == 0:
            log_p = special.log_expit(above)
        elif index == 255:
            log_p = special.log_expit(-below)
        else:
            if below > 0.0:  # In the upper tail the complements are small, not equal.
                below, above = -above, -below
            # expit(b) - expit(a) = expit(b) * (1 - exp(log expit(a) - log expit(b)))
            difference = special.log_expit(below) - special.log_expit(above)
            log_p = special.log_expit(above) + np.log(-np.expm1(difference))
        terms.append(log_weight + log_p)
    return special.logsumexp(terms)


@pytest.fixture(scope="module")
def pixels():
    """Raw parameters of pixels: moderate ones, sharp ones, and ones far outside."""
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(4, 3, COMPONENTS))  # pixels, parameters, components
    raw[1, 2] = -6.0  # Scales of a quarter of a bin.
    raw[2, 1] = 50.0  # Locations far above all values.
    raw[3, 1] = -50.0
    raw = raw.astype("float32")
    model = keras.Sequential(
        [
            bl.layers.MixtureLogistic(num_components=COMPONENTS),
            bl.layers.Discretize(-1.0, 1.0, 256),
        ]
    )
    columns = raw.reshape(4, -1)
    values = VALUES.astype("float32")[:, None, None]
    log_probs = run(lambda x: model(x).distribution.log_prob(values), columns)
    return raw.astype("float64"), log_probs[..., 0].T


def test_every_value_has_the_probability_of_the_slow_reference(pixels):
    raw, log_probs = pixels
    assert log_probs.shape == (4, 256)
    assert np.all(np.isfinite(log_probs))
    for (logits, loc, untransformed), result in zip(raw, log_probs, strict=True):
        scale = np.logaddexp(0.0, untransformed) + 1e-5
        expected = [slow_log_prob(logits, loc, scale, i) for i in range(256)]
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


def test_the_values_have_a_probability_of_one(pixels):
    _, log_probs = pixels
    np.testing.assert_allclose(special.logsumexp(log_probs, axis=1), 0.0, atol=1e-4)
