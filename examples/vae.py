"""A variational auto-encoder, in the manner of figure 7 of the Bayesian Layers paper.

An encoder of convolutions ends with a distribution over a latent code, a decoder of
transposed convolutions with a distribution over the image. The code's layer adds its KL
from the prior to the losses, so that `fit` with the negative log-likelihood maximizes
the evidence bound, the ELBO.

    python examples/vae.py                    8x8 digits of scikit-learn
    python examples/vae.py --images photos --batch_size 8
    python examples/vae.py --images mnist --network dense --units 500 --code_size 40 \\
        --batch_size 128 --learning_rate 1e-3 --epochs 30

MNIST is fetched, or read from `--data_dir` with `mnist.npz`; the last line reaches an
ELBO of -94 nats on its test images. The photographs, 32x32 parts of them with an 8x8
code, take some three minutes on one core; with `PHOTO_SIZE = 256` images and 32x32 code
have the sizes of the paper, for which you want a GPU. Samples of photographs are
textures: the prior of the code does not know what lies beside what.
"""

import argparse
import pathlib

# Imported before keras, it selects JAX unless you have chosen a backend.
import bayesian_layers as bl

# isort: split
import keras
import numpy as np
from keras import ops

PHOTO_SIZE = 32


def digits(data_dir):
    """The 8x8 images that scikit-learn brings, in [0, 1]."""
    from sklearn.datasets import load_digits

    images = load_digits().images[..., None] / 16.0
    return images[:1500], images[1500:]


def mnist(data_dir):
    """MNIST from a directory with `mnist.npz`, or fetched, in [0, 1]."""
    if data_dir is None:
        (train, _), (test, _) = keras.datasets.mnist.load_data()
    else:
        arrays = np.load(pathlib.Path(data_dir) / "mnist.npz")
        train, test = arrays["x_train"], arrays["x_test"]
    return train[..., None] / 255.0, test[..., None] / 255.0


def reduced(photo, step):
    """A photograph of bytes with one pixel for each square of pixels, in [0, 1]."""
    height, width = (size // step for size in photo.shape[:2])
    photo = photo[: height * step, : width * step]
    squares = photo.reshape(height, step, width, step, -1)
    return np.round(np.mean(squares, axis=(1, 3))) / 255.0


def photos(data_dir, count=192):
    """Random parts of the two photographs that scikit-learn brings, in [0, 1].

    Training images are from the left of the photographs, the others from the right.
    """
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(0)
    step = max(1, 128 // PHOTO_SIZE)  # A small part of a large photograph is bare.
    photographs = [reduced(photo, step) for photo in load_sample_images().images]
    height, width = photographs[0].shape[:2]
    border = width - PHOTO_SIZE * 5 // 4

    def parts(low, high, count):
        found = []
        for _ in range(count):
            top = rng.integers(height - PHOTO_SIZE + 1)
            left = rng.integers(low, high - PHOTO_SIZE + 1)
            part = np.s_[top : top + PHOTO_SIZE, left : left + PHOTO_SIZE]
            found.append(photographs[rng.integers(2)][part])
        return np.stack(found)

    return parts(0, border, count), parts(border, width, count // 8)


IMAGES = {"digits": digits, "mnist": mnist, "photos": photos}


def code_layer(units=None):
    """The distribution over the code: its KL from the prior joins the losses."""
    prior = bl.distributions.Normal(0.0, 1.0)
    return bl.layers.Normal(units, prior=prior, name="code")


def image_layers(shape, num_components=3):
    """The layers that make a distribution over the image."""
    if shape[-1] == 1:
        return [keras.layers.Conv2D(1, 1), bl.layers.Bernoulli(name="image")]
    return [
        keras.layers.Conv2D(3 * num_components * shape[-1], 1),
        bl.layers.MixtureLogistic(num_components=num_components),
        bl.layers.Discretize(0.0, 1.0, 256, name="image"),
    ]


def convolutional(shape, filters, code_size):
    """Halves the image twice, and until the code is 32x32; or it is one vector."""
    same = {"padding": "same", "activation": "relu"}
    halvings = max(2, int(np.log2(max(shape[0] // 32, 1))))
    small = shape[0] < 32
    size = shape[0] // 2**halvings
    down = [keras.layers.Conv2D(filters, 5, strides=2, **same) for _ in range(halvings)]
    up = [
        keras.layers.Conv2DTranspose(filters, 5, strides=2, **same)
        for _ in range(halvings)
    ]
    encoder = [*down, keras.layers.Conv2D(2 * code_size, size if small else 1)]
    first = keras.layers.Conv2DTranspose(
        filters, size if small else 1, activation="relu"
    )
    return [*encoder, code_layer()], [first, *up, *image_layers(shape)]


def dense(shape, units, code_size):
    """Two hidden layers on each side."""
    encoder = [keras.layers.Flatten()]
    encoder += [keras.layers.Dense(units, activation="relu") for _ in range(2)]
    decoder = [keras.layers.Dense(units, activation="relu") for _ in range(2)]
    decoder += [keras.layers.Dense(int(np.prod(shape))), keras.layers.Reshape(shape)]
    return [*encoder, code_layer(code_size)], [*decoder, *image_layers(shape)[1:]]


def binarized(images, rng):
    """Black and white images, drawn with the grey of each pixel as probability."""
    return (rng.uniform(size=images.shape) < images).astype("float32")


def autoencoder(images, network, units, code_size):
    """The encoder, the decoder, and both in one model."""
    shape = images.shape[1:]
    make = {"conv": convolutional, "dense": dense}[network]
    encoder, decoder = make(shape, units, code_size)
    encoder = keras.Sequential([keras.Input(shape), *encoder], name="encoder")
    decoder = keras.Sequential(
        [keras.Input(encoder.output_shape[1:]), *decoder], name="decoder"
    )
    inputs = keras.Input(shape)
    return encoder, decoder, keras.Model(inputs, decoder(encoder(inputs)))


def train(model, images, epochs, batch_size, learning_rate, rng):
    """Trains; black and white images are drawn anew for each epoch."""
    model.compile(
        keras.optimizers.Adam(learning_rate), bl.losses.NegativeLogLikelihood()
    )
    bar = keras.utils.Progbar(epochs, stateful_metrics=["-ELBO"], unit_name="epoch")
    for epoch in range(epochs):
        if epoch == epochs * 2 // 3:
            model.optimizer.learning_rate = learning_rate / 3.0
        x = binarized(images, rng) if images.shape[-1] == 1 else images
        history = model.fit(x, x, batch_size=batch_size, verbose=0).history
        bar.update(epoch + 1, [("-ELBO", history["loss"][0])])


def mean_image(distribution):
    """The mean of a distribution over images."""
    if isinstance(distribution, bl.distributions.Bernoulli):
        return ops.convert_to_numpy(distribution.probs)
    # Of the logistic mixture before it was rounded: not a sum over 256 values.
    return ops.convert_to_numpy(distribution.distribution.mean())


def show(path, images, reconstructions, samples):
    """Rows of images, reconstructions and samples from the prior."""
    import matplotlib.pyplot as plt

    rows = {"images": images, "reconstructions": reconstructions, "samples": samples}
    figure, axes = plt.subplots(3, 8, figsize=(8, 3.3))
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        line[0].set_title(name, fontsize=9, loc="left")
        for axis, picture in zip(line, np.clip(pictures, 0.0, 1.0), strict=True):
            axis.imshow(picture.squeeze(), cmap="gray", vmin=0.0, vmax=1.0)
            axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"Picture: {pathlib.Path(path).resolve()}")


def main(
    images="digits",
    network="conv",
    epochs=60,
    units=32,
    code_size=16,
    batch_size=64,
    learning_rate=2e-3,
    data_dir=None,
    path="vae.png",
):
    """Trains, prints the ELBO of images that were not seen, and draws."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, x_test = (part.astype("float32") for part in IMAGES[images](data_dir))
    encoder, decoder, model = autoencoder(x, network, units, code_size)
    print(f"{len(x)} images {x.shape[1:]}, code {encoder.output_shape[1:]}")
    train(model, x, epochs, batch_size, learning_rate, rng)

    test = binarized(x_test, rng) if x.shape[-1] == 1 else x_test
    elbo = -model.evaluate(test, test, batch_size=batch_size, verbose=0)
    print(f"ELBO of {len(test)} images that were not seen: {elbo:.1f} nats per image")

    code = encoder(test[:8])
    prior = rng.normal(size=(8, *encoder.output_shape[1:])).astype("float32")
    show(
        path,
        test[:8],
        mean_image(decoder(code.mean()).distribution),
        mean_image(decoder(prior).distribution),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", choices=list(IMAGES), default="digits")
    parser.add_argument("--network", choices=["conv", "dense"], default="conv")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--code_size", type=int, default=16)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--data_dir")
    parser.add_argument("--path", default="vae.png")
    main(**vars(parser.parse_args()))
