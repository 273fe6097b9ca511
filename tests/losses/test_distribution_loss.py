"""Losses of one's own that see the distribution."""

import keras
import numpy as np
import pytest
from scipy import stats

import bayesian_layers as bl

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3)).astype("float32")
Y = RNG.normal(size=8).astype("float32")


class Gaussian(bl.losses.DistributionLoss):
    """-log p, as a user of other libraries writes it."""

    def call(self, y_true, y_pred):
        assert isinstance(y_pred, bl.RandomVariable)
        return -y_pred.log_prob(y_true)


@keras.saving.register_keras_serializable("tests")
def minus_log_prob(y, rv):
    return -rv.log_prob(y)


LOSSES = {
    "subclass": Gaussian,
    "function": lambda: bl.losses.of_distribution(minus_log_prob),
    "lambda": lambda: bl.losses.of_distribution(lambda y, rv: -rv.log_prob(y)),
}


def make_model(loss):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), bl.layers.Normal(1)])
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


@pytest.mark.parametrize("name", LOSSES)
def test_fit_and_evaluate_are_those_of_the_negative_log_likelihood(name):
    weight = np.array([0.0, 1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 0.0], "float32")
    model = make_model(LOSSES[name]())
    twin = make_model(bl.losses.NegativeLogLikelihood())
    for trained in (model, twin):
        trained.fit(X, Y, sample_weight=weight, epochs=3, shuffle=False, verbose=0)
    for ours, theirs in zip(model.weights, twin.weights, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
    distribution = model(X).distribution
    loc = keras.ops.convert_to_numpy(distribution.mean())[:, 0]
    scale = keras.ops.convert_to_numpy(distribution.stddev())[:, 0]
    np.testing.assert_allclose(
        model.evaluate(X, Y, sample_weight=weight, verbose=0),
        -np.mean(weight * stats.norm.logpdf(Y, loc, scale)),
        rtol=1e-5,
    )


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_several_heads_have_such_losses(kind):
    inputs = keras.Input((3,))
    heads = {
        "height": bl.layers.Normal(1, name="height"),
        "kind": bl.layers.Categorical(4, name="kind"),
    }
    losses = {"height": Gaussian(), "kind": bl.losses.of_distribution(minus_log_prob)}
    targets = {"height": Y, "kind": np.arange(8) % 4}
    outputs = {name: head(inputs) for name, head in heads.items()}
    if kind == "list":
        outputs, losses, targets = (
            list(d.values()) for d in (outputs, losses, targets)
        )
    model = keras.Model(inputs, outputs)
    model.compile("sgd", losses)
    history = model.fit(X, targets, epochs=2, verbose=0).history
    assert {"loss", "height_loss", "kind_loss"} <= set(history)
    np.testing.assert_allclose(
        np.add(history["height_loss"], history["kind_loss"]),
        history["loss"],
        rtol=1e-5,
    )
    assert history["loss"][1] < history["loss"][0]


def test_a_registered_function_is_saved_with_the_model(tmp_path):
    model = make_model(bl.losses.of_distribution(minus_log_prob, reduction="sum"))
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert copy.loss.function is minus_log_prob
    assert (copy.loss.reduction, copy.loss.name) == ("sum", "minus_log_prob")
    np.testing.assert_allclose(
        copy.evaluate(X, Y, verbose=0), model.evaluate(X, Y, verbose=0), rtol=1e-5
    )


def test_it_decorates_a_function():
    @bl.losses.of_distribution
    def squared_error(y, rv):
        return (y - rv.mean()) ** 2

    assert squared_error.name == "squared_error"
    zeros = np.zeros((8, 1), "float32")
    variable = bl.RandomVariable(bl.distributions.Normal(zeros, 1.0))
    np.testing.assert_allclose(
        float(squared_error(Y, variable)), np.mean(Y**2), rtol=1e-5
    )


def test_targets_may_have_a_shape_of_their_own():
    # Censored durations: the time, and whether the end was seen.
    def censored(y, rv):
        time, is_seen = y[:, :1], y[:, 1:]
        log_survival = rv.distribution.log_survival(time)
        return -keras.ops.where(is_seen > 0.0, rv.log_prob(time), log_survival)

    loss = bl.losses.of_distribution(censored)
    variable = bl.RandomVariable(bl.distributions.Normal(np.zeros((2, 1)), 1.0))
    value = loss(np.array([[0.5, 1.0], [1.5, 0.0]], "float32"), variable, np.ones(2))
    expected = -(stats.norm.logpdf(0.5) + stats.norm.logsf(1.5)) / 2.0
    np.testing.assert_allclose(float(value), expected, rtol=1e-5)


def test_a_loss_that_is_a_mean_already_raises():
    loss = bl.losses.of_distribution(lambda y, rv: -keras.ops.mean(rv.log_prob(y)))
    variable = bl.RandomVariable(bl.distributions.Normal(np.zeros((8, 1)), 1.0))
    with pytest.raises(ValueError, match=r"for each example.*\(8, ...\).*shape \(\)"):
        loss(Y, variable)


def test_it_needs_a_head_and_a_function():
    with pytest.raises(TypeError, match="Gaussian needs the random variable"):
        Gaussian()(Y, keras.ops.zeros((8, 1)))
    with pytest.raises(TypeError, match="function='mse'"):
        bl.losses.of_distribution("mse")
    variable = bl.RandomVariable(bl.distributions.Normal(np.zeros((8, 1)), 1.0))
    with pytest.raises(NotImplementedError, match="implement `call`"):
        bl.losses.DistributionLoss()(Y, variable)
