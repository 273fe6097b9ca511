"""Stochastic gradient Langevin dynamics: descent with the right amount of noise."""

import keras
from keras import ops

from bayesian_layers import seeds

register = keras.saving.register_keras_serializable("bayesian_layers.optimizers")

# A learning rate that a schedule has taken to 0 moves nothing, noise included.
SMALLEST_RATE = 1e-30


class Langevin(keras.optimizers.SGD):
    """Gradient descent with noise; with momentum m, the friction is 1 - m.

    SGD moves by -rate * gradient: as noise of the gradient, that of a step with
    variance 2 * (1 - m) * rate * temperature / N is multiplied by 1 / rate.
    """

    def __init__(
        self, learning_rate, dataset_size, momentum, temperature, seed, **kwargs
    ):
        if dataset_size is None or not dataset_size > 0:
            raise ValueError(
                "`dataset_size` should be the number of training examples: "
                f"`bl.optimizers.{type(self).__name__}(1e-3, dataset_size="
                f"len(x_train))`. Received: dataset_size={dataset_size}"
            )
        if not temperature >= 0:
            raise ValueError(
                "`temperature` should not be negative. "
                f"Received: temperature={temperature}"
            )
        if kwargs.get("use_ema"):
            raise ValueError(
                "An average of weights is no draw of them: average predictions, by "
                "`bl.predict(model, x, draws=...)`. Received: use_ema=True"
            )
        super().__init__(learning_rate, momentum, **kwargs)
        self.dataset_size = dataset_size
        self.temperature = temperature
        self.seed = seed
        self.seed_generator = seeds.generator(seed)
        # As an attribute of its own Keras tracks it among the variables of the
        # optimizer, which JAX carries from step to step.
        self.seed_state = self.seed_generator.state

    def update_step(self, gradient, variable, learning_rate):
        """Moves one variable."""
        gradient = ops.cast(gradient, variable.dtype)
        rate = ops.cast(learning_rate, "float32")
        variance = 2.0 * (1.0 - self.momentum) * self.temperature / self.dataset_size
        scale = ops.sqrt(variance / ops.maximum(rate, SMALLEST_RATE))
        noise = keras.random.normal(
            ops.shape(variable), dtype="float32", seed=self.seed_generator
        )
        # Gradients of embeddings are sparse on TensorFlow; noise reaches every row.
        noisy = ops.convert_to_tensor(gradient) + ops.cast(
            scale * noise, variable.dtype
        )
        super().update_step(noisy, variable, learning_rate)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {
            **super().get_config(),
            "dataset_size": self.dataset_size,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        del config["nesterov"]
        return config


@register
class SGLD(Langevin):
    """Draws weights from their posterior: stochastic gradient Langevin dynamics.

    w <- w - rate * gradient + sqrt(2 * rate * temperature / N) * noise

    with standard normal noise, and the gradient of the loss of a batch. Trained by it,
    weights do not come to rest: after a while they are draws from

    p(w) proportional to exp(-N * loss(w) / temperature),

    which is the posterior if the loss, over all data, is the negative log-likelihood
    per example plus -log p(w) / N, for the prior p. The learning rate is that of SGD
    for the same loss. The draws are kept by `bl.callbacks.CollectDraws`, and
    `bl.predict(model, x, draws=...)` predicts by them.

    A prior of normal weights of standard deviation s is any one of these:

    - `kernel_regularizer=keras.regularizers.L2(1 / (2 * N * s**2))`;
    - `weight_decay=1 / (N * s**2)` here, for all weights (at temperature 1);
    - `kernel_initializer="trainable_deterministic"` and
      `kernel_regularizer=bl.regularizers.NormalKLDivergence(stddev=s)` in a layer of
      `bl.layers`, and `bl.scale_kl(model, dataset_size=N)`; so with any other prior.

    Without a prior the weights may go anywhere that the data allow.

    The draws have an error that vanishes with the learning rate. Where the posterior
    is normal, their variance is too large by the factor

    (1 + rate * N * c / 2) / (1 - rate * h / 2),

    for a loss of curvature h, and c the variance of the gradient over batches. Take
    larger batches or a smaller rate if that matters. Clipping of gradients changes the
    distribution.

    Args:
        learning_rate: A number, a `keras.optimizers.schedules.LearningRateSchedule`, or
            a function that returns one.
        dataset_size: The number N of training examples, that the mean of the loss is
            multiplied by to give the log-likelihood of all data; as in `bl.scale_kl`.
        temperature: 1 for the posterior; less for a sharper one, 0 for plain SGD.
        seed: Integer seed of the noise. Defaults to a random one.
        **kwargs: As in `keras.optimizers.Optimizer`; no moving averages.

    Example:
    >>> model = keras.Sequential(
    ...     [keras.Input((3,)), keras.layers.Dense(1, kernel_regularizer="l2")]
    ... )
    >>> model.compile(bl.optimizers.SGLD(0.01, dataset_size=32, seed=1), "mse")
    >>> draws = bl.callbacks.CollectDraws(every=2)
    >>> history = model.fit(
    ...     np.ones((32, 3)), np.ones(32), epochs=8, verbose=0, callbacks=[draws]
    ... )
    >>> prediction = bl.predict(model, np.ones((4, 3)), draws=draws.draws, verbose=0)
    >>> prediction.num_samples, prediction.mean.shape
    (4, (4, 1))

    Reference: Welling and Teh (2011), Bayesian learning via stochastic gradient
    Langevin dynamics.
    """

    def __init__(
        self, learning_rate, dataset_size, temperature=1.0, seed=None, **kwargs
    ):
        super().__init__(learning_rate, dataset_size, 0.0, temperature, seed, **kwargs)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["momentum"]
        return config


@register
class SGHMC(Langevin):
    """Draws weights from their posterior: stochastic gradient Hamiltonian Monte Carlo.

    v <- m * v - rate * gradient + sqrt(2 * (1 - m) * rate * temperature / N) * noise
    w <- w + v

    with momentum m: SGD with momentum, and noise. The stationary distribution is that
    of `bl.optimizers.SGLD`, where there is more on it and on priors; draws forget where
    they were about 1 / (1 - m) times as fast at the same learning rate. The friction of
    Chen et al. is 1 - m, and their estimate of the noise in gradients is 0.

    Args:
        learning_rate: As in `bl.optimizers.SGLD`.
        dataset_size: The number N of training examples; as in `bl.scale_kl`.
        momentum: A number between 0 and 1, without 1.
        temperature: 1 for the posterior; less for a sharper one.
        seed: Integer seed of the noise. Defaults to a random one.
        **kwargs: As in `keras.optimizers.Optimizer`; no moving averages.

    Example:
    >>> optimizer = bl.optimizers.SGHMC(1e-3, dataset_size=1000, momentum=0.9)
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile(optimizer, "mse")
    >>> history = model.fit(np.ones((32, 3)), np.ones(32), verbose=0)

    Reference: Chen, Fox and Guestrin (2014), Stochastic gradient Hamiltonian Monte
    Carlo.
    """

    def __init__(
        self,
        learning_rate,
        dataset_size,
        momentum=0.9,
        temperature=1.0,
        seed=None,
        **kwargs,
    ):
        if not 0.0 <= momentum < 1.0:
            raise ValueError(
                "`momentum` should be at least 0 and below 1. "
                f"Received: momentum={momentum}"
            )
        super().__init__(
            learning_rate, dataset_size, float(momentum), temperature, seed, **kwargs
        )
