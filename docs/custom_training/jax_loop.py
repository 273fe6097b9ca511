"""A training loop of one's own on JAX: the KL is in the losses of `stateless_call`."""

import bayesian_layers as bl

# isort: split
import jax
import keras
import numpy as np


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
    optimizer.build(model.trainable_variables)

    def loss(trainable, others, x, y):
        outputs, others, losses = model.stateless_call(
            trainable, others, x, training=True, return_losses=True
        )
        # The one line: `losses` holds the KL, divided by the size of the data set.
        return negative_log_likelihood(y, outputs) + sum(losses), others

    @jax.jit
    def step(state, x, y):
        trainable, others, optimizer_state = state
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, others), gradients = gradient(trainable, others, x, y)
        trainable, optimizer_state = optimizer.stateless_apply(
            optimizer_state, gradients, trainable
        )
        return value, (trainable, others, optimizer_state)

    state = (
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
        [v.value for v in optimizer.variables],
    )
    values = []
    for _ in range(steps):
        value, state = step(state, x, y)
        values.append(float(value))
    for variable, value in zip(model.trainable_variables, state[0], strict=True):
        variable.assign(value)
    for variable, value in zip(model.non_trainable_variables, state[1], strict=True):
        variable.assign(value)
    return values[0], values[-1]


if __name__ == "__main__":
    print("loss before and after:", main())
