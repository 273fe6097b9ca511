"""The ensemble as one model, and its members as draws."""

import keras
import numpy as np
import pytest
from scipy import special, stats

import bayesian_layers as bl
from bayesian_layers import backend
from tests.ensemble.networks import (
    CLASSES,
    NLL,
    X,
    Y,
    bayesian,
    classifier,
    compile_all,
    normalized,
    numpy_of,
    plain,
)


def distributions(ensemble, x=X):
    return [member(x).distribution for member in ensemble.members]


def log_mean(log_values):
    return special.logsumexp(log_values, axis=0) - np.log(len(log_values))


def normal_log_probs(ensemble):
    return np.stack(
        [
            stats.norm.logpdf(Y, numpy_of(d.mean()), numpy_of(d.stddev()))
            for d in distributions(ensemble)
        ]
    )


def test_evaluate_has_the_likelihood_of_the_mixture():
    ensemble = bl.Ensemble(normalized, 3)
    compile_all([ensemble], NLL(), lambda: [bl.metrics.NegativeLogLikelihood()])
    logs = ensemble.evaluate(X, Y, batch_size=10, verbose=0, return_dict=True)
    expected = -np.mean(log_mean(normal_log_probs(ensemble)))
    np.testing.assert_allclose(logs["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(logs["nll"], expected, rtol=1e-5)


def test_heads_give_the_equal_mixture():
    ensemble = bl.Ensemble(normalized, 3)
    y = ensemble(X)
    assert isinstance(y, bl.RandomVariable) and tuple(y.shape) == (24, 1)
    assert isinstance(y.distribution, bl.distributions.MixtureSameFamily)
    expected = log_mean(normal_log_probs(ensemble))
    np.testing.assert_allclose(numpy_of(y.log_prob(Y)), expected, rtol=1e-4, atol=1e-5)
    means = np.stack([numpy_of(d.mean()) for d in distributions(ensemble)])
    stddevs = np.stack([numpy_of(d.stddev()) for d in distributions(ensemble)])
    np.testing.assert_allclose(numpy_of(y.mean()), means.mean(axis=0), atol=1e-5)
    variance = means.var(axis=0) + (stddevs**2).mean(axis=0)
    np.testing.assert_allclose(numpy_of(y.variance()), variance, rtol=1e-4)
    assert ensemble.predict(X, verbose=0).shape == (24, 1)


def binary():
    return keras.Sequential([keras.Input((3,)), bl.layers.Bernoulli(2)])


def one_hot():
    return keras.Sequential([keras.Input((3,)), bl.layers.OneHotCategorical(3)])


@pytest.mark.parametrize("build", [classifier, binary, one_hot])
def test_classifiers_give_the_mean_of_the_probabilities(build):
    ensemble = bl.Ensemble(build, 3)
    found = ensemble(X).distribution
    probs = np.stack([numpy_of(d.probs) for d in distributions(ensemble)])
    assert type(found) is type(distributions(ensemble)[0])
    np.testing.assert_allclose(numpy_of(found.probs), probs.mean(axis=0), atol=1e-6)


def vectors():
    return keras.Sequential(
        [keras.Input((3,)), bl.layers.MultivariateNormalTriL(2, name="vector")]
    )


def mixtures():
    return keras.Sequential([keras.Input((3,)), bl.layers.MixtureNormal(1, 2)])


@pytest.mark.parametrize(("build", "y"), [(vectors, X[:, :2]), (mixtures, Y)])
def test_mixtures_of_vectors_and_of_mixtures(build, y):
    ensemble = bl.Ensemble(build, 2)
    log_probs = np.stack([numpy_of(d.log_prob(y)) for d in distributions(ensemble)])
    found = numpy_of(ensemble(X).log_prob(y))
    np.testing.assert_allclose(found, log_mean(log_probs), rtol=1e-4, atol=1e-5)


def test_plain_outputs_are_averaged():
    ensemble = bl.Ensemble(plain, 3)
    outputs = np.stack([numpy_of(member(X)) for member in ensemble.members])
    expected = outputs.mean(axis=0)
    np.testing.assert_allclose(numpy_of(ensemble(X)), expected, atol=1e-6)
    np.testing.assert_allclose(ensemble.predict(X, verbose=0), expected, atol=1e-6)
    compile_all([ensemble], "mse")
    loss = ensemble.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(loss, np.mean((expected - Y) ** 2), rtol=1e-5)


def test_the_value_can_be_the_mean():
    ensemble = bl.Ensemble(normalized, 2, convert="mean")
    y = ensemble(X)
    np.testing.assert_allclose(numpy_of(y), numpy_of(y.mean()), atol=1e-6)


def test_an_ensemble_is_a_layer_of_a_model():
    ensemble = bl.Ensemble(plain, 2)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, 2.0 * ensemble(inputs))
    expected = 2.0 * numpy_of(ensemble(X))
    np.testing.assert_allclose(numpy_of(model(X)), expected, atol=1e-6)


def test_calls_in_training_mode_update_the_state_of_all_members():
    ensemble = bl.Ensemble(normalized, 2)
    before = [member.layers[1].moving_mean.numpy() for member in ensemble.members]
    ensemble(X, training=True)
    for member, old in zip(ensemble.members, before, strict=True):
        h = numpy_of(member.layers[0](X))
        expected = 0.99 * old + 0.01 * h.mean(axis=0)
        found = member.layers[1].moving_mean.numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_penalties_count_as_the_mean_over_members():
    def build():
        layer = keras.layers.Dense(
            1, kernel_regularizer="l2", activity_regularizer="l1"
        )
        return keras.Sequential([keras.Input((3,)), layer])

    ensemble = bl.Ensemble(build, 3)
    compile_all([ensemble], "mse")
    outputs = np.stack([numpy_of(member(X)) for member in ensemble.members])
    kernels = [member.layers[0].kernel.numpy() for member in ensemble.members]
    penalty = np.mean([0.01 * np.sum(kernel**2) for kernel in kernels])
    # Keras divides penalties on activities by the size of the batch.
    activity = 0.01 * np.abs(outputs).mean()
    loss = ensemble.evaluate(X, Y, batch_size=len(X), verbose=0)
    error = np.mean((outputs.mean(axis=0) - Y) ** 2)
    np.testing.assert_allclose(loss, error + penalty + activity, rtol=1e-5)


def test_masks_of_members_are_those_of_the_ensemble():
    def build():
        return keras.Sequential(
            [
                keras.Input((4,), dtype="int32"),
                keras.layers.Embedding(5, 3, mask_zero=True),
                keras.layers.Dense(1),
            ]
        )

    x, y = np.array([[1, 2, 0, 0], [3, 0, 0, 0]]), np.ones((2, 4, 1), "float32")
    ensemble = bl.Ensemble(build, 2)
    compile_all([ensemble], "mse")
    outputs = np.mean([numpy_of(member(x)) for member in ensemble.members], axis=0)
    expected = np.mean((outputs - y)[x > 0] ** 2)
    np.testing.assert_allclose(ensemble.evaluate(x, y, verbose=0), expected, rtol=1e-5)


def test_handlers_see_the_weights_of_all_members():
    ensemble = bl.Ensemble(bayesian, 2)
    with bl.tape() as tape:
        ensemble(X)
    assert len([name for name in tape if name.endswith("kernel")]) == 4
    with bl.weights(ensemble, "mean"):
        mean = numpy_of(ensemble(X).mean())
    expected = []
    for member in ensemble.members:
        with bl.weights(member, "mean"):
            expected.append(numpy_of(member(X).mean()))
    np.testing.assert_allclose(mean, np.mean(expected, axis=0), atol=1e-5)


def flow():
    network = keras.Sequential([keras.layers.Dense(4, "tanh")])
    head = bl.layers.MultivariateNormalDiag(2)
    return keras.Sequential([keras.Input((3,)), head, bl.layers.RealNVP(network)])


def test_flows_are_trained_but_not_mixed():
    ensemble = bl.Ensemble(flow, 2)
    compile_all([ensemble], NLL())
    ensemble.fit(X, X[:, :2], verbose=0)
    with pytest.raises(ValueError, match="reversible layer of its own"):
        ensemble(X)


# Members as draws.


def test_moments_of_predict_are_those_over_members():
    ensemble = bl.Ensemble(normalized, 3)
    prediction = bl.predict(ensemble, X, batch_size=7, verbose=0)
    assert prediction.num_samples == 3
    means = np.stack([numpy_of(d.mean()) for d in distributions(ensemble)])
    stddevs = np.stack([numpy_of(d.stddev()) for d in distributions(ensemble)])
    np.testing.assert_allclose(prediction.mean, means.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(prediction.epistemic, means.var(axis=0), atol=1e-5)
    aleatoric = (stddevs**2).mean(axis=0)
    np.testing.assert_allclose(prediction.aleatoric, aleatoric, rtol=1e-4)
    expected = log_mean(normal_log_probs(ensemble)).sum(axis=-1)
    np.testing.assert_allclose(prediction.log_prob(Y), expected, rtol=1e-4, atol=1e-5)


def test_draws_are_members_in_turns_and_samples_need_not_be_stored():
    ensemble = bl.Ensemble(plain, 3)
    outputs = np.stack([numpy_of(member(X)) for member in ensemble.members])
    prediction = bl.predict(ensemble, X, num_samples=5, verbose=0)
    np.testing.assert_allclose(prediction.samples, outputs[[0, 1, 2, 0, 1]], atol=1e-6)
    prediction = bl.predict(ensemble, X, store_samples=False, verbose=0)
    np.testing.assert_allclose(prediction.epistemic, outputs.var(axis=0), atol=1e-6)


def test_predict_follows_the_members_after_training():
    ensemble = bl.Ensemble(plain, 2)
    bl.predict(ensemble, X, verbose=0)
    for member in ensemble.members:
        member.set_weights([0.5 * weight for weight in member.get_weights()])
    outputs = np.mean([numpy_of(member(X)) for member in ensemble.members], axis=0)
    prediction = bl.predict(ensemble, X, verbose=0)
    np.testing.assert_allclose(prediction.mean, outputs, atol=1e-6)


def test_bayesian_members_are_drawn_from():
    ensemble = bl.Ensemble(bayesian, 3)
    prediction = bl.predict(ensemble, X, seed=1, verbose=0)
    assert prediction.num_samples == 99
    means = numpy_of(prediction.distribution.mean())
    assert len(np.unique(means[:, 0, 0])) == 99
    # Each is a draw of its member, by the seed of its own number.
    of_first = bl.predict(ensemble.members[0], X, num_samples=99, seed=1, verbose=0)
    expected = numpy_of(of_first.distribution.mean())[::3]
    np.testing.assert_allclose(means[::3], expected, atol=1e-5)


def test_dropout_and_logits():
    def build():
        return keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(3),
            ]
        )

    ensemble = bl.Ensemble(build, 4)
    plainly = bl.predict(ensemble, X, from_logits=True, verbose=0)
    assert plainly.num_samples == 4
    logits = [numpy_of(member(X)) for member in ensemble.members]
    probs = np.mean([special.softmax(logit, axis=-1) for logit in logits], axis=0)
    np.testing.assert_allclose(plainly.probs, probs, atol=1e-6)
    dropped = bl.predict(ensemble, X, stochastic=keras.layers.Dropout, verbose=0)
    assert dropped.num_samples == 100
    assert len(np.unique(dropped.samples[:, 0, 0])) > 4


def test_the_accuracy_of_a_classifier_is_that_of_the_mean_probabilities():
    ensemble = bl.Ensemble(classifier, 3)
    compile_all([ensemble], NLL(), lambda: [bl.metrics.Accuracy()])
    logs = ensemble.evaluate(X, CLASSES, verbose=0, return_dict=True)
    probs = np.mean([numpy_of(d.probs) for d in distributions(ensemble)], axis=0)
    np.testing.assert_allclose(logs["accuracy"], np.mean(probs.argmax(-1) == CLASSES))
    picked = probs[np.arange(len(X)), CLASSES]
    np.testing.assert_allclose(logs["loss"], -np.mean(np.log(picked)), rtol=1e-5)


@pytest.mark.skipif(not backend.maps_models, reason="a loop on this backend")
def test_the_program_of_a_call_has_one_member():
    import jax

    def products(size):
        ensemble = bl.Ensemble(normalized, size)
        variables = (ensemble.trainable_variables, ensemble.non_trainable_variables)
        values = [[v.value for v in kind] for kind in variables]
        call = jax.make_jaxpr(lambda *values: ensemble.stateless_call(*values, X)[0])
        return str(call(*values)).count("dot_general")

    assert products(2) == products(5) == 2
