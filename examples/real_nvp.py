"""Images by a flow of RealNVP layers with MADE: figure 8 of the Bayesian Layers paper.

Three RealNVP layers, each with a MADE of two hidden layers, in alternating orders,
carry normal noise to images. The layers stand the other way round (`Reverse`): then the
density of an image, which training needs, takes one run of each network, and a sample
one run for each pixel.

    python examples/real_nvp.py                        8x8 digits of scikit-learn
    python examples/real_nvp.py --images mnist         28x28 digits, fetched
    python examples/real_nvp.py --images mnist --data_dir DIRECTORY    with `mnist.npz`

Pixels are whole numbers, and a density of whole numbers has no meaning. They get
uniform noise, anew in each epoch: the log-density is then, on average, a lower bound on
the log-probability of the pixels. Bits per dimension are the negative of it, per pixel.
Needs matplotlib for the picture.
"""

import argparse
import math
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from keras import ops

MARGIN = 0.05  # Values reach so far beyond 0 and 1: a sigmoid never gets to its ends.


def digits(data_dir):
    """The 8x8 images that scikit-learn brings, and the number of their grey levels."""
    from sklearn.datasets import load_digits

    images = load_digits().images
    return images[:1300], images[1300:1500], images[1500:], 17


def mnist(data_dir):
    """MNIST from a directory with `mnist.npz`, or fetched."""
    if data_dir is None:
        (train, _), (test, _) = keras.datasets.mnist.load_data()
    else:
        arrays = np.load(pathlib.Path(data_dir) / "mnist.npz")
        train, test = arrays["x_train"], arrays["x_test"]
    held = len(train) // 10
    return train[held:], train[:held], test, 256


class Dequantized(keras.utils.PyDataset):
    """Batches of images in [0, 1], with uniform noise of one grey level."""

    def __init__(self, images, levels, batch_size, seed):
        super().__init__()
        self.images, self.levels = images.astype("float32"), levels
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return math.ceil(len(self.images) / self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        images = self.images[rows]
        noise = self.rng.uniform(size=images.shape).astype("float32")
        images = (images + noise) / self.levels
        return images, images

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.images))


def flow_of(shape, hidden_dims):
    """From vectors of noise to images."""
    size = math.prod(shape)
    orders = ("left-to-right", "right-to-left", "left-to-right")
    layers = [
        bl.layers.Reverse(
            bl.layers.RealNVP(bl.layers.MADE(hidden_dims=hidden_dims, order=order))
        )
        for order in orders
    ]
    squash = [bl.layers.Sigmoid(), bl.layers.Affine(-MARGIN, 1.0 + 2.0 * MARGIN)]
    image = bl.layers.Reshape(shape, input_shape=(size,))
    return bl.Sequential([*layers, *squash, image])


def bits_per_dimension(model, images, levels, seed=0):
    """-log2 P(pixels) per pixel, at one draw of the noise."""
    loss = model.evaluate(Dequantized(images, levels, 100, seed), verbose=0)
    return (loss / math.prod(images.shape[1:]) + math.log(levels)) / math.log(2.0)


def draw(samples, path, columns=10, zoom=6):
    """A grid of samples, with large pixels and grey lines between them."""
    import matplotlib.pyplot as plt

    samples = samples.repeat(zoom, axis=1).repeat(zoom, axis=2)
    samples = np.pad(samples, ((0, 0), (2, 2), (2, 2)), constant_values=0.5)
    rows = [np.concatenate(row, axis=1) for row in np.split(samples, columns)]
    plt.imsave(path, np.concatenate(rows), cmap="gray", vmin=0.0, vmax=1.0)
    print(f"Picture: {pathlib.Path(path).resolve()}")


def main(
    images="digits",
    data_dir=None,
    epochs=100,
    hidden_dims=(512, 512),
    batch_size=100,
    path="real_nvp.png",
):
    """Trains the flow, prints bits per dimension and draws samples."""
    keras.utils.set_random_seed(0)
    train, validation, test, levels = {"digits": digits, "mnist": mnist}[images](
        data_dir
    )
    shape = train.shape[1:]
    flow = flow_of(shape, list(hidden_dims))
    base = bl.layers.BaseDistribution(math.prod(shape), seed=0)
    model = keras.Sequential([keras.Input(shape), base, flow])
    model.compile(keras.optimizers.Adam(5e-4), bl.losses.NegativeLogLikelihood())
    start = bits_per_dimension(model, test, levels)
    stop = keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True)
    history = model.fit(
        Dequantized(train, levels, batch_size, seed=1),
        validation_data=Dequantized(validation, levels, batch_size, seed=2),
        epochs=epochs,
        callbacks=[stop],
        verbose=0,
    )
    print(f"{len(train)} images of {shape} pixels with {levels} grey levels")
    print(f"epochs              {len(history.history['loss']):8}")
    print("bits per dimension of test images")
    print(f"  uniform           {math.log2(levels):8.3f}")
    print(f"  flow, untrained   {start:8.3f}")
    print(f"  flow, trained     {bits_per_dimension(model, test, levels):8.3f}")
    noise = bl.Normal(np.zeros((100, math.prod(shape)), "float32"), 1.0, seed=1)
    draw(np.clip(ops.convert_to_numpy(flow(noise)), 0.0, 1.0), path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--data_dir", help="with mnist.npz; otherwise it is fetched")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--hidden_dims", type=int, nargs="*", default=(512, 512))
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--path", default="real_nvp.png")
    main(**vars(parser.parse_args()))
