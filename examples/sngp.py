"""A network that knows what it has not seen: a spectral-normalized neural GP (SNGP).

Two residual networks learn eight of the ten handwritten digits. One is plain; in the
other the blocks are bounded (`SpectralNormalization`), so that images that are far from
each other stay so, and the last layer is a Gaussian process of random features with
Laplace's approximation (`RandomFeatureGaussianProcess`). One network, one pass: nothing
is sampled. The table says how often they are right on new images of the eight digits,
with which negative log-likelihood (NLL), and how well their entropy tells these from
images of the two digits that they have never seen, and from images with their pixels
shuffled (AUROC: 0.5 is chance, 1 is perfect). docs/sngp.md has the numbers, and what
they do and do not show. Needs scikit-learn, which brings the data.
"""

import argparse
import math

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split


def network(units, num_blocks, bounded, head):
    """A residual network on vectors of pixels."""
    inputs = keras.Input((64,))
    x = keras.layers.Dense(units, trainable=not bounded)(inputs)
    for _ in range(num_blocks):
        block = keras.layers.Dense(units, activation="relu")
        if bounded:
            block = bl.layers.SpectralNormalization(block, norm_bound=0.95)
        x = keras.layers.Add()([x, keras.layers.Dropout(0.1)(block(x))])
    return keras.Model(inputs, head(x))


def train(model, x, y, epochs, callbacks=()):
    """Trains a network, whose outputs are logits."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    model.fit(x, y, batch_size=64, epochs=epochs, verbose=0, callbacks=[*callbacks])
    return model


def log_probs_of(model, x):
    """The log-probabilities of the classes."""
    logits = model.predict(x, verbose=0)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def entropy(log_probs):
    """How unsure the model is, in nats."""
    return -np.sum(np.exp(log_probs) * log_probs, axis=-1)


def report(name, model, x, y, others):
    """Prints a row of the table."""
    known = log_probs_of(model, x)
    row = [np.mean(np.argmax(known, axis=-1) == y)]
    row.append(-np.mean(known[np.arange(len(x)), y]))
    for other in others:
        scores = [entropy(known), entropy(log_probs_of(model, other))]
        is_other = np.repeat([0, 1], [len(x), len(other)])
        row.append(roc_auc_score(is_other, np.concatenate(scores)))
    print(f"{name:16}" + "".join(f"{number:12.3f}" for number in row))


def main(
    epochs=60, units=128, num_blocks=3, num_features=512, unseen_digits=(8, 9), seed=0
):
    """Trains both networks, and compares them."""
    keras.utils.set_random_seed(seed)
    images, labels = load_digits(return_X_y=True)
    images = (images.astype("float32") - 8.0) / 8.0
    is_unseen = np.isin(labels, unseen_digits)
    unseen = images[is_unseen]
    digits, labels = np.unique(labels[~is_unseen], return_inverse=True)
    x, x_test, y, y_test = train_test_split(
        images[~is_unseen], labels, train_size=0.5, random_state=seed
    )
    shuffled = np.random.default_rng(seed).permuted(x_test, axis=-1)
    classes = len(digits)
    plain = network(units, num_blocks, False, keras.layers.Dense(classes))
    train(plain, x, y, epochs)
    head = bl.layers.RandomFeatureGaussianProcess(
        classes,
        num_features,
        ridge_penalty=0.1,
        mean_field_factor=math.pi / 8,
        seed=seed,
    )
    sngp = network(units, num_blocks, True, head)
    bl.scale_kl(sngp, dataset_size=len(x))
    train(sngp, x, y, epochs, [bl.callbacks.ResetPrecision()])
    print(f"{len(x)} images to learn from, {len(x_test)} new, {len(unseen)} unseen")
    columns = ["accuracy", "NLL", "unseen", "shuffled"]
    print(f"{'':16}" + "".join(f"{column:>12}" for column in columns))
    report("deterministic", plain, x_test, y_test, [unseen, shuffled])
    report("SNGP", sngp, x_test, y_test, [unseen, shuffled])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--num_blocks", type=int, default=3)
    parser.add_argument("--num_features", type=int, default=512)
    parser.add_argument("--unseen_digits", type=int, nargs="+", default=[8, 9])
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
