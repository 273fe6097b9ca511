"""Methods of the UCI benchmark: one recipe for each, the same for all data.

A recipe takes standardized training data, inputs `[n, D]` and outputs `[n, 1]`, and a
seed, and returns a function from inputs to a `bl.Prediction`. Networks have one hidden
layer of 50 relu units, noise of one standard deviation for all inputs, and the defaults
of the library for all that is Bayesian.
"""

import functools
import math

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np

UNITS = 50
BATCH_SIZE = 128
LEARNING_RATE = 1e-2
# An epoch goes over the data so often that it has as many batches: with small data the
# work between epochs would be most of the time.
STEPS_OF_EPOCH = 100


def fit(model, x, y, steps, batch_size=BATCH_SIZE, rate=LEARNING_RATE, **kwargs):
    """Trains by Adam, with a rate that falls to zero by a cosine."""
    batch_size = min(batch_size, len(x))
    repeats = math.ceil(STEPS_OF_EPOCH * batch_size / len(x))
    epochs = max(1, round(steps * batch_size / (repeats * len(x))))
    steps = epochs * math.ceil(repeats * len(x) / batch_size)
    decay = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(decay), bl.losses.NegativeLogLikelihood())
    x, y = (np.tile(array, (repeats, 1)) for array in (x, y))
    model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0, **kwargs)
    return model


def predictor(model, **kwargs):
    """The function from inputs to predictions of a trained model."""

    def predict(x):
        return bl.predict(model, x, batch_size=len(x), verbose=0, **kwargs)

    return predict


def network(dense, x, *after, between=()):
    """A hidden layer and a linear one of a class, and what comes between and after."""
    hidden = dense(UNITS, activation="relu")
    return keras.Sequential(
        [keras.Input(x.shape[1:]), hidden, *between, dense(1), *after]
    )


def variational(dense, head=None, steps=20_000):
    """Variational inference: a normal posterior of independent weights."""

    def recipe(x, y, seed):
        last = bl.layers.Normal(homoscedastic=True) if head is None else head()
        model = network(dense, x, last)
        schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
        fit(model, x, y, steps, callbacks=[schedule])
        return predictor(model, num_samples=100, seed=seed)

    return recipe


def penalized(dataset_size):
    """Keras' dense layer, with a standard normal prior of its kernel as a penalty."""
    penalty = keras.regularizers.L2(0.5 / dataset_size)
    return functools.partial(keras.layers.Dense, kernel_regularizer=penalty)


def dropout(x, y, seed, rate=0.05, steps=20_000):
    """Monte Carlo dropout of the hidden units, with the prior as a penalty."""
    head, between = bl.layers.Normal(homoscedastic=True), bl.layers.MonteCarloDropout
    model = network(penalized(len(x)), x, head, between=[between(rate)])
    fit(model, x, y, steps)
    return predictor(model, num_samples=100, seed=seed)


def ensemble(x, y, seed, size=5, steps=2_000):
    """A deep ensemble; the members have the prior as a penalty.

    A tenth of the steps: points fit the noise in time, and take it for none.
    """

    def member():
        return network(penalized(len(x)), x, bl.layers.Normal(homoscedastic=True))

    return predictor(fit(bl.Ensemble(member, size), x, y, steps), seed=seed)


def process(num_layers, num_inducing, batch_size, steps=8_000):
    """A sparse Gaussian process, or a deep one of several layers.

    At three times the rate of the networks: at theirs, the bound of small sets with
    little noise is far from its maximum after as many steps. Deep ones warm the KL up:
    else their inner layers may go to the prior before they have learnt anything.
    """

    def recipe(x, y, seed):
        model = bl.layers.deep_gaussian_process(
            x, num_layers=num_layers, num_inducing=num_inducing, y=y, seed=seed
        )
        warmup = 0 if num_layers == 1 else None  # None is half of the epochs.
        schedule = bl.callbacks.KLSchedule(dataset_size=len(x), warmup_epochs=warmup)
        fit(model, x, y, steps, batch_size, rate=3e-2, callbacks=[schedule])
        return predictor(model, num_samples=100, seed=seed)

    return recipe


class Noise(bl.layers.RandomWeights, keras.Layer):
    """Puts a scale beside its inputs, of which the logarithm is a random weight."""

    def build(self, input_shape):
        self.log_scale = self.add_weight(
            shape=(1,),
            initializer=bl.initializers.get("trainable_normal"),
            regularizer=bl.regularizers.get("normal_kl_divergence"),
            name="log_scale",
        )

    def call(self, inputs):
        scale = keras.ops.exp(self.log_scale) * keras.ops.ones_like(inputs)
        return keras.ops.concatenate([inputs, scale], axis=-1)


def nuts(x, y, seed, num_draws=500, num_chains=2, steps=20_000):
    """The posterior of all weights, biases and noise too, by Markov chains.

    They start at draws from what variational inference has found.
    """
    dense = functools.partial(
        bl.layers.DenseReparameterization,
        bias_initializer="trainable_normal",
        bias_regularizer="normal_kl_divergence",
    )
    normal = bl.layers.DistributionLambda(
        lambda t: bl.distributions.Normal(t[..., :1], t[..., 1:])
    )
    model = network(dense, x, Noise(), normal)
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    fit(model, x, y, steps, callbacks=[schedule])
    draws = bl.mcmc(
        model,
        (x, y),
        num_warmup=num_draws,
        num_samples=num_draws,
        num_chains=num_chains,
        max_tree_depth=8,
        target_accept_prob=0.9,
        start="posterior",
        seed=seed,
        progress_bar=False,
    )
    return predictor(model, draws=draws, num_samples=200, seed=seed)


RECIPES = {
    "flipout": variational(bl.layers.DenseFlipout),
    "local": variational(bl.layers.DenseLocalReparameterization),
    "moments": variational(
        bl.layers.DenseMomentPropagation, bl.layers.GaussianLikelihood
    ),
    "dropout": dropout,
    "ensemble": ensemble,
    "nuts": nuts,
    "sparse_gp": process(1, num_inducing=200, batch_size=256),
    "deep_gp_2": process(2, num_inducing=100, batch_size=512),
    "deep_gp_3": process(3, num_inducing=100, batch_size=512),
}
