"""A network, and the same network with distributions over its weights.

Ten measurements of diabetes patients predict how far the disease has come a year
later. The plain network learns its 221 patients by heart; the Bayesian one, which has
other class names and one layer more, says how sure it is. Needs scikit-learn, which
brings the data, and matplotlib for the picture.
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

BODY_MASS_INDEX = 2
NINETY_PERCENT = 1.645  # Standard deviations of a normal distribution.


class EpochBar(keras.callbacks.Callback):
    """One progress bar for all epochs, with what Keras and `KLSchedule` log."""

    def on_train_begin(self, logs=None):
        self.bar = keras.utils.Progbar(
            self.params["epochs"],
            stateful_metrics=["loss", "kl"],
            unit_name="epoch",
        )

    def on_epoch_end(self, epoch, logs=None):
        self.bar.update(epoch + 1, list(logs.items()))


def network(dense, *head, units=50):
    """A hidden layer and a linear one of the given class, and what comes after them."""
    return keras.Sequential([dense(units, activation="relu"), dense(1), *head])


def train(model, loss, x, y, epochs):
    """Trains a network; nothing here knows whether it is Bayesian."""
    model.compile(keras.optimizers.Adam(1e-2), loss)
    # It warms up over the first half of the epochs; a plain network has no KL.
    callbacks = [bl.callbacks.KLSchedule(dataset_size=len(x)), EpochBar()]
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=callbacks)
    return model


def train_both(x, y, epochs):
    """The plain network, the noise that its errors show, and the Bayesian network."""
    print(f"\nA plain network, {len(x)} patients")
    plain = network(keras.layers.Dense)
    train(plain, "mse", x, y, epochs)
    noise = float(np.std(y - plain.predict(x, verbose=0)))
    print("The same with DenseFlipout for Dense, and Normal after them")
    head = bl.layers.Normal(homoscedastic=True)  # The noise is the same for all.
    bayesian = network(bl.layers.DenseFlipout, head)
    train(bayesian, bl.losses.NegativeLogLikelihood(), x, y, epochs)
    return plain, noise, bayesian


def report(name, mean, interval, log_prob, y):
    """Prints a row of the table."""
    low, high = interval
    rmse = np.sqrt(np.mean((mean - y) ** 2))
    coverage = np.mean((low <= y) & (y <= high))
    print(f"{name:10}{rmse:8.3f}{-np.mean(log_prob):10.3f}{coverage:23.2f}")


def compare(x, y, epochs, num_samples):
    """Both networks on held-out patients."""
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.5, random_state=0)
    plain, noise, bayesian = train_both(x, y, epochs)
    prediction = bl.predict(bayesian, x_test, num_samples, seed=0, verbose=0)
    print(f"\n{len(x_test)} other patients")
    print(f"{'':10}{'RMSE':>8}{'NLL':>10}{'in the 90% interval':>23}")
    normal = stats.norm(plain.predict(x_test, verbose=0), noise)
    report("plain", normal.mean(), normal.interval(0.9), normal.logpdf(y_test), y_test)
    report(
        "Bayesian",
        prediction.mean,
        prediction.interval(0.9),
        prediction.log_prob(y_test),
        y_test,
    )
    epistemic, aleatoric = prediction.epistemic.mean(), prediction.aleatoric.mean()
    print(
        f"The Bayesian variance: {epistemic:.3f} for want of data, {aleatoric:.3f} "
        "noise in the data"
    )


def band(axis, grid, low, high, label, alpha):
    """Fills the space between two curves."""
    axis.fill_between(
        grid[:, 0], low[:, 0], high[:, 0], color="tab:blue", alpha=alpha, label=label
    )


def draw(x, y, epochs, num_samples, path):
    """Both networks on one measurement, which a picture can show."""
    import matplotlib.pyplot as plt

    print("\nThe body mass index alone, for the picture")
    plain, noise, bayesian = train_both(x, y, epochs)
    grid = np.linspace(-4.0, 6.0, 200, dtype="float32")[:, None]
    prediction = bl.predict(bayesian, grid, num_samples, seed=0, verbose=0)
    mean, width = plain.predict(grid, verbose=0), NINETY_PERCENT * noise
    inner = NINETY_PERCENT * np.sqrt(prediction.epistemic)

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    left.plot(grid, mean)
    band(left, grid, mean - width, mean + width, "90%, by the errors in training", 0.2)
    left.set(title="plain", ylabel="progression (standardized)")
    right.plot(grid, prediction.mean)
    band(right, grid, *prediction.interval(0.9), "90%", 0.2)
    label = "of it, for want of data"
    band(right, grid, prediction.mean - inner, prediction.mean + inner, label, 0.35)
    right.set(title="Bayesian", ylim=(-4.0, 6.0))
    for axis in (left, right):
        axis.scatter(x, y, s=5, color="black", label="patients")
        axis.set_xlabel("body mass index (standardized)")
        axis.legend(loc="upper left", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"\nPicture: {pathlib.Path(path).resolve()}")


def main(epochs=500, num_samples=200, path="quickstart.png"):
    """Compares the networks on all measurements, and draws them on one."""
    keras.utils.set_random_seed(0)
    print(f"Keras {keras.__version__} on {keras.backend.backend()}")
    x, y = load_diabetes(return_X_y=True)
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype("float32")
    y = ((y - y.mean()) / y.std()).astype("float32")[:, None]
    compare(x, y, epochs, num_samples)
    draw(x[:, [BODY_MASS_INDEX]], y, epochs, num_samples, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--num_samples", type=int, default=200)
    parser.add_argument("--path", default="quickstart.png")
    main(**vars(parser.parse_args()))
