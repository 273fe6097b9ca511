"""A training loop of one's own on TensorFlow: the KL is in `model.losses`."""

import bayesian_layers as bl

# isort: split
import keras
import numpy as np
import tensorflow as tf


def main(steps=200):
    """Fits a line; returns the loss before and after."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 1)).astype("float32")
    y = 2.0 * x + 0.1 * rng.normal(size=(128, 1)).astype("float32")

    model = keras.Sequential(
        [keras.Input((1,)), bl.layers.DenseFlipout(8, activation="tanh")]
    )
    model.add(bl.layers.Normal(1))
    bl.scale_kl(model, dataset_size=len(x))
    negative_log_likelihood = bl.losses.NegativeLogLikelihood()
    optimizer = keras.optimizers.Adam(0.02)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            # The one line: the losses hold the KL, divided by the size of the data set.
            loss = negative_log_likelihood(y, outputs) + sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    values = [float(step(x, y)) for _ in range(steps)]
    return values[0], values[-1]


if __name__ == "__main__":
    print("loss before and after:", main())
