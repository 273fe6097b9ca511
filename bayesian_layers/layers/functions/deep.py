"""Deep Gaussian processes: sparse ones behind each other."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import covariances, initializers
from bayesian_layers.layers.functions.inducing import inducing_inputs
from bayesian_layers.layers.functions.likelihoods import GaussianLikelihood
from bayesian_layers.layers.functions.mean_functions import principal_components
from bayesian_layers.layers.functions.process import positive_integer
from bayesian_layers.layers.functions.sparse_gaussian_process import (
    SparseGaussianProcess,
)


def deep_gaussian_process(
    x,
    units=1,
    num_layers=2,
    num_inducing=100,
    *,
    y=None,
    hidden_units=None,
    covariance_fn=None,
    likelihood=None,
    hidden_stddev=0.01,
    seed=None,
):
    """Makes a deep Gaussian process, a Keras model that trains with `fit`.

    f(x) = f_L(... f_1(x)), with independent sparse Gaussian processes f_l

    It is a `keras.Sequential` of `bl.layers.SparseGaussianProcess` layers and a
    likelihood. Each layer sees a draw from the one before it: the expected
    log-likelihood is estimated without bias, and with the KL of all inducing values in
    the losses, `fit` maximizes the doubly stochastic evidence bound. With one layer it
    is a sparse Gaussian process.

    The layers start as Salimbeni and Deisenroth start them: the mean function of an
    inner layer is the identity, or a projection on principal components; inner layers
    have next to no noise; inducing inputs are k-means centres of the data, mapped by
    the mean functions of the layers before. Given targets, the last layer starts at the
    best q(u) for them, in closed form: training is then shorter, and ends at a better
    bound.

    Train with `bl.callbacks.KLSchedule`, whose warm-up lets the inner layers learn
    before the KL has its full weight. Without it (`bl.scale_kl`) they may end at their
    priors, as if they were not there.

    Args:
        x: The training inputs `[n, D]`, an array. Standardize the columns.
        units: The number of outputs of the last process.
        num_layers: The number L of processes.
        num_inducing: The number of inducing inputs of each.
        y: The training targets `[n, units]`, an array, for the start of the last layer;
            the likelihood has to be Gaussian. Defaults to a start at the prior.
        hidden_units: The number of outputs of inner layers. Defaults to D, up to 30.
        covariance_fn: A covariance function, copied for each layer. Defaults to
            `ExponentiatedQuadratic` with a lengthscale for each dimension, which starts
            at the root of their number.
        likelihood: The layer at the end. Defaults to `bl.layers.GaussianLikelihood()`.
        hidden_stddev: Where the standard deviation of the (whitened) inducing values of
            inner layers starts.
        seed: Integer seed of the choice of inducing inputs, and of the layers.

    Returns:
        A `keras.Sequential`, built.

    Example:
    >>> x = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
    >>> y = x[:, :1]
    >>> model = bl.layers.deep_gaussian_process(x, num_inducing=10, y=y)
    >>> model.compile("adam", bl.losses.NegativeLogLikelihood())
    >>> schedule = bl.callbacks.KLSchedule(dataset_size=50)
    >>> history = model.fit(x, y, callbacks=[schedule], verbose=0)
    >>> prediction = bl.predict(model, x, num_samples=4, verbose=0)
    >>> prediction.stddev.shape
    (50, 1)

    Reference: Salimbeni and Deisenroth (2017), Doubly stochastic variational inference
    for deep Gaussian processes.
    """
    num_layers = positive_integer("num_layers", num_layers)
    points = np.asarray(x, "float32")
    likelihood = GaussianLikelihood() if likelihood is None else likelihood
    if y is not None and type(likelihood) is not GaussianLikelihood:
        raise ValueError(
            "`y` sets q(u) to its optimum under Gaussian noise. Leave it out for other "
            f"likelihoods. Received: likelihood={likelihood}"
        )
    layers = [keras.Input(points.shape[1:])]
    rng = np.random.default_rng(seed)
    for number in range(num_layers):
        is_last = number == num_layers - 1
        width = units if is_last else hidden_units or min(np.shape(x)[1], 30)
        mean_fn = None if is_last else principal_components(points, width)
        start = 1.0 if is_last else hidden_stddev
        layers.append(
            SparseGaussianProcess(
                width,
                num_inducing,
                mean_fn,
                _covariance(covariance_fn, points.shape[1]),
                inducing_inputs=inducing_inputs(
                    points, num_inducing, seed=int(rng.integers(2**31))
                ),
                inducing_values_initializer=(
                    initializers.TrainableMultivariateNormalRows(start)
                ),
                seed=None if seed is None else int(rng.integers(2**31)),
            )
        )
        if not is_last:
            points = ops.convert_to_numpy(mean_fn(points))
    model = keras.Sequential([*layers, likelihood])
    if y is not None:
        layers[-1].condition(points, y, _noise_variance(likelihood))
    return model


def _noise_variance(likelihood):
    """The variance of the noise, of all units alike."""
    variance = ops.convert_to_numpy(likelihood.noise_variance)
    return float(np.mean(variance))


def _covariance(template, size):
    if template is None:
        return covariances.ExponentiatedQuadratic(lengthscale=size**0.5, ard=True)
    template = covariances.get(template)
    config = template.get_config()
    config.pop("name", None)  # Each copy has one of its own.
    return type(template).from_config(config)
