"""Predictions of several models together."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import special, stats

import bayesian_layers as bl

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 2)).astype("float32")
Y = X[:, :1]


def network(*layers):
    return keras.Sequential([keras.Input((2,)), *layers])


def plain(*units):
    return network(*(keras.layers.Dense(n, activation="tanh") for n in units))


def normal(*units):
    layers = [keras.layers.Dense(n, activation="tanh") for n in units]
    return network(*layers, bl.layers.Normal(1))


def bayesian():
    return network(bl.layers.DenseReparameterization(1))


def numpy_of(tensor):
    return ops.convert_to_numpy(tensor)


def predict(models, **kwargs):
    return bl.predict(models, X, **{"batch_size": 4, "verbose": 0, **kwargs})


def test_moments_are_those_over_models_of_any_architecture():
    models = [normal(), normal(3), normal(4, 4)]
    prediction = predict(tuple(models))
    assert prediction.num_samples == 3
    outputs = [model(X).distribution for model in models]
    means = np.stack([numpy_of(d.mean()) for d in outputs])
    stddevs = np.stack([numpy_of(d.stddev()) for d in outputs])
    np.testing.assert_allclose(prediction.mean, means.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(prediction.epistemic, means.var(axis=0), atol=1e-5)
    np.testing.assert_allclose(
        prediction.aleatoric, (stddevs**2).mean(axis=0), rtol=1e-4
    )
    log_probs = stats.norm.logpdf(Y, means, stddevs)
    expected = special.logsumexp(log_probs, axis=0)[:, 0] - np.log(3.0)
    np.testing.assert_allclose(prediction.log_prob(Y), expected, rtol=1e-4)


def test_models_have_equal_numbers_of_draws():
    models = [plain(3, 1), plain(1)]
    outputs = [numpy_of(model(X)) for model in models]
    prediction = predict(models, num_samples=5)
    expected = [outputs[i] for i in (0, 0, 0, 1, 1)]
    np.testing.assert_allclose(prediction.samples, expected, atol=1e-6)
    assert predict([bayesian(), plain(1), plain(1)]).num_samples == 99


def test_one_model_in_a_list_is_that_model_and_equal_models_have_draws_of_their_own():
    model = bayesian()
    alone = predict(model, num_samples=4, seed=3)
    np.testing.assert_array_equal(
        predict([model], num_samples=4, seed=3).samples, alone.samples
    )
    twice = predict([model, model], num_samples=4, seed=3).samples
    np.testing.assert_allclose(twice, alone.samples, atol=1e-6)
    assert len(np.unique(twice[:, 0, 0])) == 4


def test_members_of_an_ensemble_in_a_list_are_the_ensemble():
    ensemble = bl.Ensemble(lambda: normal(3), 3)
    together, apart = predict(ensemble), predict(ensemble.members)
    np.testing.assert_allclose(apart.mean, together.mean, atol=1e-6)
    np.testing.assert_allclose(apart.log_prob(Y), together.log_prob(Y), atol=1e-5)


def test_data_that_can_be_read_only_once():
    models = [plain(1), plain(2, 1)]
    expected = predict(models)
    batches = ((X[i : i + 4],) for i in range(0, len(X), 4))
    found = bl.predict(models, batches, verbose=0)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)


def test_logits_and_moments_only():
    models = [network(keras.layers.Dense(3)) for _ in range(2)]
    prediction = predict(models, from_logits=True, store_samples=False)
    probs = [special.softmax(numpy_of(model(X)), axis=-1) for model in models]
    np.testing.assert_allclose(prediction.probs, np.mean(probs, axis=0), atol=1e-6)
    entropies = [stats.entropy(p, axis=-1) for p in probs]
    np.testing.assert_allclose(
        prediction.aleatoric, np.mean(entropies, axis=0), atol=1e-5
    )


def test_models_that_are_not_built_and_several_outputs():
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return {"a": self.dense(inputs), "b": -self.dense(inputs)}

    models = [Two(), Two()]
    predictions = predict(models)
    mean = np.mean([numpy_of(model(X)["a"]) for model in models], axis=0)
    np.testing.assert_allclose(predictions["a"].mean, mean, atol=1e-6)
    np.testing.assert_allclose(predictions["b"].mean, -mean, atol=1e-6)


def test_mixtures_of_other_numbers_of_components_have_moments_only():
    models = [network(bl.layers.MixtureNormal(1, k)) for k in (2, 3)]
    with pytest.raises(ValueError, match="store_samples=False"):
        predict(models)
    means = [numpy_of(model(X).mean()) for model in models]
    found = predict(models, store_samples=False).mean
    np.testing.assert_allclose(found, np.mean(means, axis=0), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "options", "error", "match"),
    [
        (lambda: [], {}, ValueError, "at least one model"),
        (lambda: [plain(1), "model"], {}, TypeError, "Received: 'model'"),
        (lambda: [plain(1), plain(2)], {}, ValueError, "models 0 and 1"),
        (lambda: [plain(1), normal()], {}, ValueError, "Deterministic.*Normal"),
        (
            lambda: [plain(1)] * 3,
            {"num_samples": 2},
            ValueError,
            "at least one of each",
        ),
        (
            lambda: [plain(1), bl.Ensemble(lambda: plain(1), 2)],
            {},
            ValueError,
            r"\*ensemble.members",
        ),
        (
            lambda: [bayesian()],
            {"draws": bl.Draws({"w": np.zeros((1, 2))})},
            ValueError,
            "`draws` are of the weights of one model",
        ),
        (
            lambda: bl.Ensemble(bayesian, 2),
            {"draws": bl.Draws({"w": np.zeros((1, 2))})},
            ValueError,
            "`draws` are of the weights of one model",
        ),
    ],
)
def test_refusals(make, options, error, match):
    with pytest.raises(error, match=match):
        predict(make(), **options)
