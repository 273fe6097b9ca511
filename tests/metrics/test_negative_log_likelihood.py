"""The negative log-likelihood as a metric."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from bayesian_layers.prediction.moments import Moments
from tests.layers.outputs.table import array

RNG = np.random.default_rng(0)
LOC = RNG.normal(size=(10, 2, 3)).astype("float32")
Y = RNG.normal(size=(10, 2, 3)).astype("float32")
NLL = -stats.norm.logpdf(Y, LOC, 0.5)


def metric_of(y=Y, weight=None, batch_size=4):
    """The metric over batches of 4, 4 and 2."""
    metric = bl.metrics.NegativeLogLikelihood()
    for start in range(0, len(y), batch_size):
        rows = slice(start, start + batch_size)
        variable = bl.RandomVariable(bl.distributions.Normal(LOC[rows], 0.5))
        metric.update_state(y[rows], variable, None if weight is None else weight[rows])
    return float(metric.result())


def test_it_is_summed_over_axes_and_averaged_over_all_examples():
    np.testing.assert_allclose(metric_of(), NLL.sum(axis=(1, 2)).mean(), rtol=1e-5)


def test_with_weights_it_is_the_weighted_mean_over_all_batches():
    weight = RNG.uniform(size=10).astype("float32")
    weight[3] = 0.0
    y = Y.copy()
    y[3] = np.nan
    expected = np.average(NLL.sum(axis=(1, 2)), weights=weight)
    np.testing.assert_allclose(metric_of(y, weight), expected, rtol=1e-5)
    np.testing.assert_allclose(metric_of(y, weight[:, None]), expected, rtol=1e-5)


def test_weights_of_steps_count_by_their_mean():
    weight = RNG.uniform(size=(10, 2)).astype("float32")
    expected = (NLL * weight[..., None]).sum() / weight.mean(axis=1).sum()
    np.testing.assert_allclose(metric_of(Y, weight), expected, rtol=1e-5)
    np.testing.assert_allclose(
        metric_of(Y, np.full((10, 2), 0.3, "float32")), metric_of(), rtol=1e-5
    )


def test_it_starts_again_and_is_0_before():
    metric = bl.metrics.NegativeLogLikelihood()
    assert float(metric.result()) == 0.0
    metric.update_state(Y, bl.RandomVariable(bl.distributions.Normal(LOC, 0.5)))
    metric.reset_state()
    assert float(metric.result()) == 0.0


@pytest.fixture(scope="module")
def model():
    """Two heads over masked sequences; the penalty is in the loss only."""
    inputs = keras.Input((4,), dtype="int32")
    x = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    x = bl.layers.DenseReparameterization(3, kl_scale=1.0, activation="tanh")(x)
    outputs = {
        "amount": bl.layers.Normal(1, name="amount")(x),
        "kind": bl.layers.Categorical(3, name="kind")(x),
    }
    model = keras.Model(inputs, outputs)
    nll, metric = bl.losses.NegativeLogLikelihood, bl.metrics.NegativeLogLikelihood
    model.compile(
        keras.optimizers.SGD(0.0),
        {"amount": nll(), "kind": nll()},
        metrics={"amount": [metric()], "kind": [metric()]},
    )
    return model


def test_it_is_the_loss_of_each_head_without_the_kl(model):
    tokens = RNG.integers(0, 5, (10, 4)).astype("int32")
    targets = {
        "amount": RNG.normal(size=(10, 4)).astype("float32"),
        "kind": RNG.integers(0, 3, (10, 4)).astype("int32"),
    }
    targets["amount"][tokens == 0] = np.nan
    targets["kind"][tokens == 0] = -1
    # On TensorFlow Keras averages the losses of several heads over batches, not over
    # examples: batches of one size.
    logs = model.evaluate(tokens, targets, batch_size=5, verbose=0, return_dict=True)
    for name in targets:
        np.testing.assert_allclose(logs[f"{name}_nll"], logs[f"{name}_loss"], rtol=1e-5)
    total = logs["amount_nll"] + logs["kind_nll"] + array(bl.total_kl(model))
    np.testing.assert_allclose(logs["loss"], total, rtol=1e-5)


def test_history_has_it_and_early_stopping_watches_it():
    # Nothing is learned: the second epoch is no better.
    model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    model.compile(
        keras.optimizers.SGD(0.0),
        bl.losses.NegativeLogLikelihood(),
        metrics=[bl.metrics.NegativeLogLikelihood()],
    )
    stop = keras.callbacks.EarlyStopping(monitor="val_nll", patience=1)
    x, y = LOC[:, 0], Y[:, 0, :1]
    history = model.fit(
        x, y, epochs=5, validation_data=(x, y), callbacks=[stop], verbose=0
    ).history
    assert stop.monitor_op is ops.less
    assert len(history["val_nll"]) == 2
    np.testing.assert_allclose(history["val_nll"], history["val_loss"], rtol=1e-5)
    assert "nll" in history


def test_weighted_metrics_get_the_weights():
    model = keras.Sequential([keras.Input((6,)), bl.layers.Normal()])
    model.compile(
        loss=bl.losses.NegativeLogLikelihood(reduction="mean_with_sample_weight"),
        weighted_metrics=[bl.metrics.NegativeLogLikelihood()],
    )
    x = RNG.normal(size=(10, 6)).astype("float32")
    weight = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 1.0, 2.0, 1.0, 0.5], "float32")
    y = Y[:, 0].copy()
    y[0] = np.nan
    logs = model.evaluate(
        x, y, sample_weight=weight, batch_size=10, verbose=0, return_dict=True
    )
    assert np.isfinite(logs["nll"])
    np.testing.assert_allclose(logs["nll"], logs["loss"], rtol=1e-5)


def test_it_can_be_saved():
    metric = bl.metrics.NegativeLogLikelihood(name="data")
    config = keras.saving.serialize_keras_object(metric)
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, bl.metrics.NegativeLogLikelihood)
    assert copy.name == "data"


def prediction_of(distribution):
    """A prediction by the draws of a distribution `[S, B, ...]`."""
    mean = array(distribution.mean()).mean(axis=0)
    return bl.Prediction(Moments(type(distribution), 3, {"mean": mean}), distribution)


def test_of_a_prediction_it_is_of_the_mixture_with_weights_too():
    loc = RNG.normal(size=(3, 10, 2)).astype("float32")
    prediction = prediction_of(bl.distributions.Normal(loc, 0.5))
    y = Y[:, 0, :2].copy()
    expected = -prediction.log_prob(y)
    result = bl.metrics.NegativeLogLikelihood()(y, prediction)
    np.testing.assert_allclose(float(result), expected.mean(), rtol=1e-5)
    weight = np.array([0.0, *RNG.uniform(size=9)], "float32")
    y[0] = np.nan
    result = bl.metrics.NegativeLogLikelihood()(y, prediction, weight)
    expected = np.average(expected[1:], weights=weight[1:])
    np.testing.assert_allclose(float(result), expected, rtol=1e-5)


def test_it_needs_the_draws_of_a_prediction_of_numbers():
    prediction = bl.Prediction(
        Moments(bl.distributions.Normal, 3, {"mean": np.zeros((10, 1))})
    )
    with pytest.raises(ValueError, match="store_samples=True"):
        bl.metrics.NegativeLogLikelihood().update_state(Y[:, 0, :1], prediction)


def test_it_needs_a_head_or_probabilities():
    with pytest.raises(ValueError, match="Categorical expects `probs`"):
        bl.metrics.NegativeLogLikelihood().update_state(Y, LOC)
