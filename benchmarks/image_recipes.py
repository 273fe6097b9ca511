"""How each method of `images.py` trains a network, and predicts: the recipes.

All of them share the networks, Adam at a rate that falls from 1e-3 to 0 by a cosine,
batches of 128 and, where weights are random, 20 draws for a prediction. What is not
said is a default of the library: priors, initial scales, the full weight of the KL
after a warm-up over half of the epochs. Nothing is tempered.

Three numbers were chosen by the NLL of held-out training images (`--validate`, one
seed), of the network of 2 x 400 units: the rate of dropout out of 0.1, 0.25 and 0.5 and
the bound of SNGP out of 1 and 6 on Fashion-MNIST (10 epochs), and the rate of Adam out
of 1e-3 and 3e-3 for flipout on MNIST (30 epochs). LeNet-5 pools by averages, as the
original one does: on one core a step of the plain network takes half the time of one
with maxima.
"""

import functools
import math

import bayesian_layers as bl

# isort: split
import keras

BATCH_SIZE = 128
RATE = 1e-3
NUM_DRAWS = 20
ENSEMBLE_SIZE = 5
DROPOUT_RATE = 0.1
NORM_BOUND = 6.0
NUM_FEATURES = 1024
RELU = {"activation": "relu"}


def mlp(dense, conv, between):
    """The hidden layers of a network on vectors of pixels: two of 400 units."""
    hidden = [[dense(400, **RELU), *between()] for _ in range(2)]
    return [keras.layers.Flatten(), *sum(hidden, [])]


def lenet(dense, conv, between):
    """The hidden layers of LeNet-5, with relu."""
    pool = functools.partial(keras.layers.AveragePooling2D, 2)
    return [
        *[conv(6, 5, padding="same", **RELU), pool(), *between()],
        *[conv(16, 5, **RELU), pool(), *between(), keras.layers.Flatten()],
        *[dense(120, **RELU), *between()],
        *[dense(84, **RELU), *between()],
    ]


NETWORKS = {"mlp": mlp, "lenet": lenet}


def classifier(
    network,
    shape,
    dense=keras.layers.Dense,
    conv=keras.layers.Conv2D,
    between=lambda: [],
    head=None,
):
    """A network that returns logits of ten classes."""
    layers = NETWORKS[network](dense, conv, between)
    return keras.Sequential([keras.Input(shape), *layers, head or dense(10)])


def train(model, x, y, epochs, callbacks=()):
    """Trains a network that returns logits."""
    steps = epochs * math.ceil(len(x) / BATCH_SIZE)
    rate = keras.optimizers.schedules.CosineDecay(RATE, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss)
    model.fit(
        x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0, callbacks=[*callbacks]
    )
    return model


def deterministic(network, x, y, epochs):
    """The plain network."""
    return train(classifier(network, x.shape[1:]), x, y, epochs)


def dropout(network, x, y, epochs):
    """Dropout after each hidden layer, that stays on."""
    model = classifier(
        network,
        x.shape[1:],
        between=lambda: [bl.layers.MonteCarloDropout(DROPOUT_RATE)],
    )
    return train(model, x, y, epochs)


def flipout(network, x, y, epochs):
    """Distributions over all kernels: the defaults of the layers and of the schedule.

    Twice the epochs: the scales need the steps.
    """
    model = classifier(
        network, x.shape[1:], bl.layers.DenseFlipout, bl.layers.Conv2DFlipout
    )
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    return train(model, x, y, 2 * epochs, [schedule])


def moped(network, x, y, epochs):
    """The plain network with distributions around its weights, trained on as long."""
    net = deterministic(network, x, y, epochs)
    model = bl.to_bayesian(net, prior="moped")
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x))
    return train(model, x, y, epochs, [schedule])


def laplace(network, x, y, epochs):
    """The plain network with a distribution over its last kernel, by its curvature."""
    net = deterministic(network, x, y, epochs)
    return bl.to_bayesian(
        net, posterior="laplace", data=(x, y), likelihood="categorical"
    )


def sngp(network, x, y, epochs):
    """Bounded layers, and a Gaussian process of random features on top of them."""

    def bounded(layer):
        return lambda *args, **kwargs: bl.layers.SpectralNormalization(
            layer(*args, **kwargs), norm_bound=NORM_BOUND
        )

    head = bl.layers.RandomFeatureGaussianProcess(
        10, NUM_FEATURES, mean_field_factor=math.pi / 8
    )
    model = classifier(
        network,
        x.shape[1:],
        bounded(keras.layers.Dense),
        bounded(keras.layers.Conv2D),
        head=head,
    )
    bl.scale_kl(model, dataset_size=len(x))
    return train(model, x, y, epochs, [bl.callbacks.ResetPrecision()])


def ensemble(network, x, y, epochs):
    """Plain networks, trained one after another.

    On a CPU that is faster than `bl.Ensemble`: there convolutions that are mapped over
    members take longer than one by one.
    """
    return [deterministic(network, x, y, epochs) for _ in range(ENSEMBLE_SIZE)]


METHODS = {
    "deterministic": deterministic,
    "dropout": dropout,
    "flipout": flipout,
    "moped": moped,
    "laplace": laplace,
    "sngp": sngp,
    "ensemble": ensemble,
}
# Of methods whose weights are points; `None` is one for each member.
DRAWS_OF_POINTS = {"deterministic": 1, "ensemble": None}


def probabilities(method, model, x):
    """Those of the classes `[examples, 10]`, by draws where a method has some."""
    if method == "sngp":  # One pass: the logits know of the variance.
        logits = model.predict(x, batch_size=1000, verbose=0)
        return keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    return bl.predict(
        model,
        x,
        num_samples=DRAWS_OF_POINTS.get(method, NUM_DRAWS),
        batch_size=1000,
        from_logits=True,
        store_samples=False,
        verbose=0,
    ).probs
