"""A trained network made Bayesian: by MOPED and fine-tuning, and by Laplace's method.

A convolutional network is trained on images of digits as ever. Then its weights become
the means of distributions (`bl.to_bayesian`), whose scales are proportional to the
weights, and are trained some more; or the curvature at the trained weights gives the
distributions, and nothing is trained. The table has accuracy, negative log-likelihood
(NLL) and expected calibration error (ECE) of images that were not seen: means over
seeds, each another network and another split, with standard errors.

With MOPED the network knows better when it errs, at the same accuracy; more training
without distributions makes it only surer. Laplace's method with the prior of the
largest marginal likelihood fails here, as the network was trained, without weight
decay, until it was sure of all its images: the curvature there is nearly zero, and the
posterior is the prior. With a prior chosen on other images it is better than the
network it came from.

Needs scikit-learn, which brings the data; or name an `.npz` file with `x_train`,
`y_train`, `x_test`, `y_test`, such as MNIST's.
"""

import argparse

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def load(npz, train_size, seed):
    """Images between 0 and 1 and their labels, to learn from and held out."""
    if npz is None:
        images, labels = load_digits(return_X_y=True)
        images = images.reshape(-1, 8, 8, 1) / 16.0
    else:
        with np.load(npz) as file:
            images = np.concatenate([file["x_train"], file["x_test"]])[..., None] / 255
            labels = np.concatenate([file["y_train"], file["y_test"]])
    x, x_test, y, y_test = train_test_split(
        images.astype("float32"), labels, train_size=train_size, random_state=seed
    )
    return x, y, x_test[:10_000], y_test[:10_000]


def network(shape):
    """A small convolutional network, of Keras' own layers."""
    return keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D()
            if shape[0] > 8
            else keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def train(model, x, y, epochs, rate, callbacks=()):
    """Trains a model that returns logits."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss)
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=callbacks)
    return model


def continued(model, x, y, epochs):
    """The model trained some more, as the Bayesian one is: what that alone does."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return train(copy, x, y, epochs, rate=1e-3)


def fine_tuned(net, x, y, epochs, kl_weight):
    """The network with distributions around its weights, trained some more."""
    # As wide as the weights are large: a standard normal prior would be far wider.
    prior = bl.regularizers.AnchoredNormalKLDivergence(0.01, relative_stddev=1.0)
    model = bl.to_bayesian(net, delta=0.2, prior=prior)
    bl.scale_kl(model, dataset_size=len(x), weight=kl_weight)
    return train(model, x, y, epochs, rate=1e-3)


def laplace(net, x, y, layers, stddev=None, structure=None):
    """The network with distributions from the curvature at its weights."""
    prior = stddev and bl.regularizers.NormalKLDivergence(stddev=stddev)
    return bl.to_bayesian(
        net,
        posterior="laplace",
        data=(x, y),
        likelihood="categorical",
        layers=layers,
        structure=structure,
        prior=prior,
    )


def best_laplace(net, x, y, validation, stddevs, num_draws, layers, structure):
    """The one with the prior that is best on images for that purpose."""
    models = [laplace(net, x, y, layers, stddev, structure) for stddev in stddevs]
    x_validation, y_validation = validation
    return min(
        models, key=lambda model: score(model, x_validation, y_validation, num_draws)[1]
    )


def score(model, x, labels, num_draws):
    """Accuracy, negative log-likelihood and calibration error."""
    probs = bl.predict(
        model, x, num_draws, batch_size=256, from_logits=True, verbose=0
    ).probs
    accuracy = np.mean(np.argmax(probs, axis=-1) == labels)
    nll = -np.mean(np.log(probs[np.arange(len(labels)), labels] + 1e-9))
    ece = float(bl.metrics.ExpectedCalibrationError()(labels, probs))
    return accuracy, nll, ece


def run(
    seed, epochs, fine_tuning_epochs, train_size, num_draws, kl_weight, stddevs, npz
):
    """Returns the scores of each model, by name, for one network and split."""
    keras.utils.set_random_seed(seed)
    x, y, x_test, y_test = load(npz, train_size, seed)
    count = len(x) // 5
    validation, x, y = (x[:count], y[:count]), x[count:], y[count:]
    net = train(network(x.shape[1:]), x, y, epochs, rate=3e-3)

    def validated(layers, structure=None):
        settings = (stddevs, num_draws, layers, structure)
        return best_laplace(net, x, y, validation, *settings)

    models = {
        "deterministic": net,
        "deterministic, longer": continued(net, x, y, fine_tuning_epochs),
        "MOPED, fine-tuned": fine_tuned(net, x, y, fine_tuning_epochs, kl_weight),
        "Laplace, last layer": laplace(net, x, y, "last"),
        "  prior by validation": validated("last"),
        "Laplace, all layers": laplace(net, x, y, "all"),
        "  prior by validation ": validated("all"),
        "  the same, diagonal": validated("all", "diagonal"),
    }
    return {
        name: score(model, x_test, y_test, num_draws) for name, model in models.items()
    }


def main(
    epochs=60,
    fine_tuning_epochs=30,
    train_size=500,
    num_draws=50,
    num_seeds=3,
    kl_weight=0.1,
    stddevs=(0.3, 0.1, 0.05, 0.02),
    npz=None,
):
    """Compares the models over seeds."""
    settings = (epochs, fine_tuning_epochs, train_size, num_draws, kl_weight, stddevs)
    runs = [run(seed, *settings, npz) for seed in range(num_seeds)]
    print(f"{train_size} images, a fifth of them to choose priors, {num_seeds} seeds")
    print(f"{'':22}{'accuracy':>18}{'NLL':>18}{'ECE':>18}")
    for name in runs[0]:
        table = np.array([result[name] for result in runs])
        errors = table.std(axis=0, ddof=min(1, num_seeds - 1)) / np.sqrt(num_seeds)
        row = zip(table.mean(axis=0), errors, strict=True)
        cells = [f"{mean:.4f} +- {error:.4f}" for mean, error in row]
        print(f"{name:22}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--fine_tuning_epochs", type=int, default=30)
    parser.add_argument("--train_size", type=int, default=500)
    parser.add_argument("--num_draws", type=int, default=50)
    parser.add_argument("--num_seeds", type=int, default=3)
    parser.add_argument("--kl_weight", type=float, default=0.1)
    parser.add_argument(
        "--stddevs", type=float, nargs="+", default=[0.3, 0.1, 0.05, 0.02]
    )
    parser.add_argument("--npz")
    main(**vars(parser.parse_args()))
