"""Flows as approximate posteriors of latent variables."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.reversible.table import array
from tests.statistics import assert_mean

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")


def normal_kl(mean, stddev, prior_mean, prior_stddev):
    """KL between normal distributions, summed over elements, averaged over examples."""
    ratio = (stddev / prior_stddev) ** 2
    distance = ((mean - prior_mean) / prior_stddev) ** 2
    return np.mean(np.sum(0.5 * (ratio + distance - 1.0 - np.log(ratio)), axis=-1))


PRIOR = bl.distributions.Normal(0.5, 2.0)


def test_the_closed_form_is_used_where_there_is_one():
    layer = bl.layers.KLFromPrior(PRIOR, kl_weight=3.0)
    stddev = np.linspace(0.5, 1.5, 4, dtype="float32")
    z = bl.RandomVariable(bl.distributions.Normal(X, stddev), seed=1)
    assert layer(z) is z
    expected = 3.0 * normal_kl(X, stddev, 0.5, 2.0)
    np.testing.assert_allclose(array(layer.losses[0]), expected, rtol=1e-5)


def test_behind_an_affine_flow_it_is_on_average_that_of_the_normal_distribution():
    """Each call sees 4,000 examples, whose differences have a standard error."""
    mean, stddev = np.float32([0.3, -1.0]), np.float32([0.5, 1.2])
    flow = bl.layers.Affine([1.0, 0.0], [2.0, -0.5])
    layer = bl.layers.KLFromPrior(PRIOR)
    base = bl.distributions.Normal(np.tile(mean, (4000, 1)), stddev)
    z = flow(bl.RandomVariable(base, seed=1))
    layer(z)
    differences = array(z.log_prob(z)) - array(PRIOR.log_prob(z.value))
    differences = differences.sum(axis=-1)
    np.testing.assert_allclose(array(layer.losses[0]), differences.mean(), rtol=1e-4)
    expected = normal_kl(
        mean * [2.0, -0.5] + [1.0, 0.0], np.abs(stddev * [2.0, -0.5]), 0.5, 2.0
    )
    assert_mean(differences[:, None], [expected], detect=[0.2])


def autoencoder(flow):
    """From four numbers over a code of two to four again."""
    inputs = keras.Input((4,))
    code = bl.layers.Normal(2, seed=1, name="head")(inputs)
    code = bl.layers.KLFromPrior(name="kl")(flow(code))
    outputs = bl.layers.Normal(4, seed=2)(code)
    return keras.Model(inputs, outputs)


def test_an_autoencoder_with_a_flow_is_fitted_and_saved(tmp_path):
    keras.utils.set_random_seed(1)
    flow = bl.Sequential(
        [
            bl.layers.InverseAutoregressiveFlow(bl.layers.MADE(hidden_dims=[8])),
            bl.layers.Permute("reverse"),
            bl.layers.Affine(),
        ],
        name="flow",
    )
    model = autoencoder(flow)
    model.compile(keras.optimizers.Adam(0.02), bl.losses.NegativeLogLikelihood())
    before = [array(v) for v in flow.trainable_variables]
    losses = model.fit(X, X, epochs=10, batch_size=8, verbose=0).history["loss"]
    assert np.mean(losses[-3:]) < losses[0]
    for variable, old in zip(flow.trainable_variables, before, strict=True):
        assert np.any(array(variable) != old), variable.path
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("kl").get_config() == model.get_layer("kl").get_config()
    for old, new in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(array(old), array(new))


def test_a_flow_that_is_the_identity_costs_what_the_prior_of_a_head_does():
    """The same head, once with a prior, once with a flow and the layer behind it."""
    head = bl.layers.Normal(2, prior=bl.distributions.Normal(0.0, 1.0), seed=1)
    x = np.tile(X, (250, 1))
    head(x)
    expected = float(array(head.losses[0]))
    layer = bl.layers.KLFromPrior()
    head.prior = None
    layer(bl.layers.Affine(0.0, 1.0)(head(x)))
    # The mean over 4,000 draws of what has the closed form for its mean.
    np.testing.assert_allclose(array(layer.losses[0]), expected, atol=0.15)


def test_tensors_and_other_priors_are_refused():
    with pytest.raises(TypeError, match="expects a random variable"):
        bl.layers.KLFromPrior()(ops.ones((2, 2)))
    with pytest.raises(TypeError, match="`prior` should be a distribution"):
        bl.layers.KLFromPrior("normal")
