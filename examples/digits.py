"""A network on handwritten digits, and the same with distributions over its weights.

The only change is the names of the classes and one line that scales the KL. Needs
scikit-learn, which brings the data.
"""

import argparse

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def network(conv, dense):
    """A small convolutional network made of the given classes."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            conv(16, 3, padding="same", activation="relu"),
            conv(32, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Flatten(),
            dense(10),
        ]
    )


def report(name, probs, labels):
    """Prints how good the probabilities are, and how sure."""
    accuracy = np.mean(np.argmax(probs, axis=-1) == labels)
    nll = -np.mean(np.log(probs[np.arange(len(labels)), labels] + 1e-9))
    confidence = np.mean(np.max(probs, axis=-1))
    print(f"{name:14}{accuracy:10.3f}{nll:8.3f}{confidence:12.3f}")


def main(epochs=60, train_size=300, num_draws=30):
    """Trains both networks on few digits and compares them on the others."""
    keras.utils.set_random_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype("float32") / 16.0
    x, x_test, y, y_test = train_test_split(
        images, labels, train_size=train_size, random_state=0
    )
    deterministic = network(keras.layers.Conv2D, keras.layers.Dense)
    bayesian = network(bl.layers.Conv2DFlipout, bl.layers.DenseFlipout)
    bl.scale_kl(bayesian, dataset_size=len(x))
    for model in (deterministic, bayesian):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(5e-3), loss, metrics=["accuracy"])
        model.fit(x, y, batch_size=64, epochs=epochs, verbose=0)
    kl = keras.ops.convert_to_numpy(bl.total_kl(bayesian))
    print(f"KL of the posterior from the prior: {kl:.0f} nats")
    print(f"{'held out':14}{'accuracy':>10}{'NLL':>8}{'confidence':>12}")
    for name, model in (("deterministic", deterministic), ("bayesian", bayesian)):
        prediction = bl.predict(
            model, x_test, num_draws, batch_size=256, from_logits=True, verbose=0
        )
        report(name, prediction.probs, y_test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--train_size", type=int, default=300)
    parser.add_argument("--num_draws", type=int, default=30)
    main(**vars(parser.parse_args()))
