"""A network on handwritten digits, and the same with distributions over its weights.

The only change is the names of the classes and a callback that scales the KL. The table
says how often the networks are right, and whether they know it: the negative
log-likelihood (NLL) and the expected calibration error (ECE) of images that were not
seen. The plain network is too sure. The Bayesian one is not sure enough: ten weights
for each image cost more KL than the image is worth. A tempered one, whose KL counts a
tenth, lies between: see docs/training.md. Needs scikit-learn, which brings the data.
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


def train(model, x, y, epochs, kl_weight=1.0):
    """Trains a network; a deterministic one has no KL, which the schedule allows."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    schedule = bl.callbacks.KLSchedule(dataset_size=len(x), final_weight=kl_weight)
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=[schedule])
    return model


def report(name, probs, labels):
    """Prints a row of the table."""
    accuracy = np.mean(np.argmax(probs, axis=-1) == labels)
    nll = -np.mean(np.log(probs[np.arange(len(labels)), labels] + 1e-9))
    ece = float(bl.metrics.ExpectedCalibrationError()(labels, probs))
    confidence = np.mean(np.max(probs, axis=-1))
    print(f"{name:20}{accuracy:10.3f}{nll:8.3f}{ece:8.3f}{confidence:12.3f}")


def main(epochs=200, train_size=1000, num_draws=50, seed=0):
    """Trains the networks on some digits and compares them on the others."""
    keras.utils.set_random_seed(seed)
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype("float32") / 16.0
    x, x_test, y, y_test = train_test_split(
        images, labels, train_size=train_size, random_state=seed
    )
    bayesian = (bl.layers.Conv2DFlipout, bl.layers.DenseFlipout)
    models = {
        "deterministic": train(
            network(keras.layers.Conv2D, keras.layers.Dense), x, y, epochs
        ),
        "Bayesian": train(network(*bayesian), x, y, epochs),
        "Bayesian, tempered": train(network(*bayesian), x, y, epochs, kl_weight=0.1),
    }
    print(f"{len(x)} images to learn from, {len(x_test)} held out")
    print(f"{'':20}{'accuracy':>10}{'NLL':>8}{'ECE':>8}{'confidence':>12}")
    for name, model in models.items():
        prediction = bl.predict(
            model, x_test, num_draws, batch_size=256, from_logits=True, verbose=0
        )
        report(name, prediction.probs, y_test)
    kl = keras.ops.convert_to_numpy(bl.total_kl(models["Bayesian"]))
    print(f"KL of the posterior from the prior: {kl:.0f} nats")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--train_size", type=int, default=1000)
    parser.add_argument("--num_draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
