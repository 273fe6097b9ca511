"""Logits that account for their variance, against expectations by Monte Carlo."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import special

import bayesian_layers as bl

NOISE = np.random.default_rng(0).normal(size=(20000, 1, 4))


def adjusted(logits, variance, **arguments):
    return ops.convert_to_numpy(bl.mean_field_logits(logits, variance, **arguments))


def test_one_logit_has_the_expected_probability():
    """Within 0.02; the standard error of the expectation is below 0.004."""
    mean, variance = np.meshgrid(np.linspace(-8, 8, 17), [0.0, 0.1, 1.0, 9.0, 100.0])
    noise = NOISE[:, :, :1]
    expected = special.expit(mean + np.sqrt(variance) * noise).mean(axis=0)
    probs = special.expit(adjusted(mean, variance))
    np.testing.assert_allclose(probs, expected, atol=0.02 + 5 * 0.004)
    unadjusted = np.abs(special.expit(mean) - expected).max()
    assert unadjusted > 0.2


def test_classes_have_nearly_the_expected_probabilities():
    """For variances up to 4 within 0.06, where unadjusted ones are up to 0.15 off."""
    rng = np.random.default_rng(1)
    mean = 2.0 * rng.normal(size=(30, 4))
    variance = np.repeat(rng.uniform(0.0, 4.0, size=(30, 1)), 4, axis=-1)
    expected = special.softmax(mean + np.sqrt(variance) * NOISE, axis=-1).mean(axis=0)
    error = np.abs(special.softmax(adjusted(mean, variance), axis=-1) - expected)
    assert error.max() < 0.06
    unadjusted = np.abs(special.softmax(mean, axis=-1) - expected)
    assert error.mean() < 0.5 * unadjusted.mean()


def test_no_variance_or_factor_leaves_the_logits():
    np.testing.assert_array_equal(adjusted([1.0, -2.0], 0.0), [1.0, -2.0])
    changed = adjusted([1.0, -2.0], 3.0, mean_field_factor=0.0)
    np.testing.assert_array_equal(changed, [1.0, -2.0])
    with pytest.raises(ValueError, match="mean_field_factor=-1"):
        bl.mean_field_logits(1.0, 1.0, -1)


def test_dtype():
    logits = ops.ones((2,), "bfloat16")
    result = bl.mean_field_logits(logits, ops.ones((2,), "bfloat16"))
    assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"
