"""Exact Gaussian processes."""

import warnings
import weakref

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend, keras_contact, linalg
from bayesian_layers.distributions import Deterministic, Normal
from bayesian_layers.layers.functions.process import (
    Process,
    joint_normal,
    per_unit,
    without,
)
from bayesian_layers.layers.register import register
from bayesian_layers.parameterizations import Softplus, untransformed

MINIBATCH = (
    "The Gaussian process {layer!r} is trained on {steps} batches an epoch. Its "
    "log-likelihood of a batch leaves out how the batch depends on all others: the "
    "hyperparameters that it finds are not those of the data set. Give all data in one "
    "batch (`batch_size=len(x)`), or use `bl.layers.SparseGaussianProcess`."
)
CONDITIONED = (
    "The Gaussian process {layer!r} is trained while it is conditioned on data. If "
    "these are the training data, it has seen the targets: their log-likelihood is not "
    "the marginal likelihood, and the noise will shrink. Train first, on all data in "
    "one batch, then call `gp.condition(x, y)`; or `gp.fit(x, y)`, which does both."
)


@register
class GaussianProcess(Process):
    """A Gaussian process: the nonparametric extension of `Dense(units)`.

    f ~ GP(m, k), with observations y = f(x) + noise

    Without conditioning data the layer returns the prior at its inputs, N(m(x), k(x,
    x)); with data (X, Y) the posterior, N(m(x) + k(x, X) K^-1 (Y - m(X)), k(x, x) -
    k(x, X) K^-1 k(X, x)), with K = k(X, X) + noise. It is a random variable of shape
    `[n, units]`: jointly normal over the inputs of a call, a `JointNormal`, and
    independent over units. The cost is cubic in the number of points and of
    conditioning data: for up to some thousand of them.

    Hyperparameters are learned without conditioning data: `-log_prob(y)` of *all* data
    in one batch is the negative log marginal likelihood, which
    `bl.losses.NegativeLogLikelihood` divides by their number. Then `condition(x, y)`;
    `fit(x, y)` does both.

    Where `bl.weights` or `bl.predict` hold the layer, it is one function of x over all
    calls: a pathwise draw.

    Args:
        units: The number of functions, independent of each other.
        mean_fn: The mean m: `None` for zero, `"identity"`, or a function or layer from
            `[n, D]` to `[n, units]`.
        covariance_fn: The covariance k: one of `bl.covariances` (`None` is
            `ExponentiatedQuadratic()`, with amplitude and lengthscale 1), a name, a
            function of x and z, or a list with one for each unit.
        conditional_inputs: Inputs X of the conditioning data, `[N, D]`.
        conditional_outputs: Their targets Y, `[N, units]`.
        noise_variance: The variance of the noise. Above 0 it is where a trained weight
            starts; at 0, the default, there is no noise.
        with_noise: Whether the output is that of noisy observations (the default) or of
            the function. Without noise both are the same. Of either, whatever it is:
            `layer.distribution(x, with_noise=False)`.
        trainable_noise: Whether the noise is trained.
        trainable_conditional_inputs: Whether X is trained (as pseudo-inputs).
        trainable_conditional_outputs: Whether Y is trained.
        num_path_features: The number of random features of a held function.
        num_conditional: How many conditioning data a saved layer had; leave it out.
        **kwargs: `convert`, `seed`, and as in `keras.Layer`.

    Example:
    >>> gp = bl.layers.GaussianProcess(
    ...     1, conditional_inputs=[[0.0]], conditional_outputs=[[1.0]]
    ... )
    >>> f = gp(np.array([[1.0]]))
    >>> round(float(f.mean()[0, 0]), 4), round(float(f.variance()[0, 0]), 4)
    (0.6065, 0.6321)

    References: Rasmussen and Williams (2006), Gaussian processes for machine learning;
    Wilson et al. (2020), Efficiently sampling functions from Gaussian process
    posteriors.
    """

    def __init__(
        self,
        units,
        mean_fn=None,
        covariance_fn=None,
        conditional_inputs=None,
        conditional_outputs=None,
        noise_variance=0.0,
        *,
        with_noise=True,
        trainable_noise=True,
        trainable_conditional_inputs=False,
        trainable_conditional_outputs=False,
        num_path_features=1024,
        num_conditional=None,
        **kwargs,
    ):
        super().__init__(units, mean_fn, covariance_fn, num_path_features, **kwargs)
        if not noise_variance >= 0.0:
            raise ValueError(
                "`noise_variance` should not be negative. "
                f"Received: noise_variance={noise_variance}"
            )
        self.noise_variance = float(noise_variance)
        self._with_noise = bool(with_noise)
        self.trainable_noise = trainable_noise
        self.trainable_conditional_inputs = trainable_conditional_inputs
        self.trainable_conditional_outputs = trainable_conditional_outputs
        self.num_conditional = num_conditional
        self.conditional_inputs = None
        self.conditional_outputs = None
        self._models = weakref.WeakSet()
        self._warns = True
        if (conditional_inputs is None) != (conditional_outputs is None):
            raise ValueError(
                "`conditional_inputs` and `conditional_outputs` belong together. "
                "Received only one of them."
            )
        if conditional_inputs is not None:
            self.condition(conditional_inputs, conditional_outputs)

    def build(self, input_shape):
        """Makes the noise, and room for the conditioning data of a saved layer."""
        super().build(input_shape)
        self.untransformed_noise = None
        if self.noise_variance:
            value = untransformed(Softplus(), self.noise_variance, self._float_dtype())
            self.untransformed_noise = self.add_weight(
                (),
                lambda shape, dtype=None: value,
                name="untransformed_noise",
                trainable=self.trainable_noise,
                dtype=self._float_dtype(),
                autocast=False,
            )
        if self.num_conditional is not None and self.conditional_inputs is None:
            # Numbers that nobody can take for data, until they are loaded.
            inputs = np.full((self.num_conditional, input_shape[-1]), np.nan)
            outputs = np.full((self.num_conditional, self.units), np.nan)
            self._set_data(inputs, outputs)

    # Conditioning data.

    def condition(self, x, y):
        """Conditions the process on data, in place of those that it had.

        Args:
            x: Inputs `[N, D]`; `None`, for both, for no data.
            y: Targets `[N, units]`, or `[N]` for one unit.

        Example:
        >>> gp = bl.layers.GaussianProcess(1, noise_variance=0.01)
        >>> gp.condition([[0.0], [1.0]], [[1.0], [2.0]])
        >>> bool(gp(np.array([[0.5]])).mean()[0, 0] > 1.0)
        True
        """
        if x is None and y is None:
            self._set_data(None, None)
        else:
            x, y = self._checked_data(x, y)
            if not self.built:
                self.build(x.shape)
            self._set_data(x, y)
        for model in self._models:
            # What they compiled is of the process without these data.
            keras_contact.exchange_compiled_functions(model, {})

    def _checked_data(self, x, y):
        x, y = np.asarray(x), np.asarray(y)
        y = y[:, None] if y.ndim == 1 else y
        if x.ndim != 2 or y.shape != (len(x), self.units) or not len(x):
            raise ValueError(
                f"Expected data of shapes [N, D] and [N, {self.units}], with N > 0. "
                f"Received: x.shape={x.shape}, y.shape={y.shape}"
            )
        if self.built and x.shape[1] != self.num_columns:
            raise ValueError(
                f"Expected inputs with {self.num_columns} columns. "
                f"Received: x.shape={x.shape}"
            )
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
            raise ValueError("Expected finite data. Received: data with NaN or inf.")
        return x, y

    def _set_data(self, x, y):
        """Replaces the variables of the conditioning data, perhaps by none."""
        for name in ("conditional_inputs", "conditional_outputs"):
            if getattr(self, name) is not None:
                keras_contact.untrack(self, getattr(self, name))
                setattr(self, name, None)
        self.random_weights.pop("path_noise", None)
        self.num_conditional = None if x is None else len(x)
        if x is None:
            return
        with keras_contact.unlocked(self):
            self.conditional_inputs = self._add_data(
                "conditional_inputs", x, self.trainable_conditional_inputs
            )
            self.conditional_outputs = self._add_data(
                "conditional_outputs", y, self.trainable_conditional_outputs
            )
        self._add_noise("path_noise", Normal, self.units, len(x))

    def _add_data(self, name, value, trainable):
        dtype = self._float_dtype()
        value = value.astype(dtype)
        return self.add_weight(
            value.shape,
            lambda shape, dtype=None: ops.convert_to_tensor(value),
            name=name,
            trainable=trainable,
            dtype=dtype,
            autocast=False,
        )

    def fit(self, x, y, epochs=200, optimizer=None, verbose="auto", **kwargs):
        """Learns the hyperparameters from data, and conditions the process on them.

        It maximizes the log marginal likelihood of all data at once.

        Args:
            x: Inputs `[N, D]`.
            y: Targets `[N, units]`, or `[N]` for one unit.
            epochs: The number of steps.
            optimizer: A Keras optimizer. Defaults to Adam with a learning rate of 0.05.
            verbose: As in `keras.Model.fit`.
            **kwargs: Further arguments of `keras.Model.fit`, such as `callbacks`.

        Returns:
            The `History`: `loss` is the negative log marginal likelihood over N.

        Example:
        >>> x = np.linspace(0.0, 6.0, 20)[:, None].astype("float32")
        >>> gp = bl.layers.GaussianProcess(1, noise_variance=0.1)
        >>> history = gp.fit(x, np.sin(x), epochs=5, verbose=0)
        >>> history.history["loss"][-1] < history.history["loss"][0]
        True
        """
        from bayesian_layers.losses import NegativeLogLikelihood

        for name in ("batch_size", "validation_split", "sample_weight"):
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"`{name}` has no meaning for a process that is fitted to all data "
                    f"at once. Received: {name}={kwargs[name]}"
                )
        x, y = self._checked_data(x, y)
        self.condition(None, None)
        with_noise, self._with_noise = self._with_noise, True
        try:
            model = keras.Sequential([keras.Input(x.shape[1:]), self])
            optimizer = optimizer or keras.optimizers.Adam(0.05)
            model.compile(optimizer, NegativeLogLikelihood())
            history = model.fit(
                x, y, batch_size=len(x), epochs=epochs, verbose=verbose, **kwargs
            )
        finally:
            self._with_noise = with_noise
        self.condition(x, y)
        return history

    # The distribution at points.

    def call(self, inputs):
        """Returns a random variable of shape `[n, units]`."""
        self._check_training()
        return super().call(inputs)

    @property
    def with_noise(self):
        """Whether the output is that of noisy observations.

        It cannot be set, as a compiled model would not see it. For the other of the two
        call `distribution(x, with_noise=...)`.
        """
        return self._with_noise

    def at(self, x, with_noise=None):
        """Returns the distribution at points `[n, D]`.

        Args:
            x: The points.
            with_noise: Whether of noisy observations, or of the function. Defaults to
                that of the layer.
        """
        if with_noise is None:
            with_noise = self._with_noise
        if len(x.shape) != 2:
            raise ValueError(
                f"Layer {self.name!r} expects inputs [n, D]: its outputs are jointly "
                f"normal over all of them. Received: inputs of shape {tuple(x.shape)}"
            )
        path = self.draw_path() if self.is_held() else None
        mean = self._mean(x)
        if self.conditional_inputs is None:
            if path is not None:
                return self._around(mean + ops.transpose(path(x)), with_noise)
            return self._joint(x, mean, None, with_noise)
        given, tril, deviations = self._conditioned(path)
        # L^-1 k(X, x), of shape [N, n] or [units, N, n].
        whitened = linalg.solve_lower(tril, self.covariance_fn(given, x))
        update = per_unit(linalg.solve_lower_vectors(tril, deviations), whitened)
        if path is not None:
            return self._around(mean + ops.transpose(path(x) + update), with_noise)
        explained = ops.swapaxes(whitened, -1, -2) @ whitened
        return self._joint(x, mean + ops.transpose(update), explained, with_noise)

    def _conditioned(self, path):
        """Conditioning inputs, the factor of their covariance, and what is to explain.

        The last is `[units, N]`: targets without their mean, and without the values of
        a path and of noise, if there is one, by Matheron's rule.
        """
        given = ops.convert_to_tensor(self.conditional_inputs)
        outputs = ops.convert_to_tensor(self.conditional_outputs)
        # A saved layer is traced before its data are loaded.
        is_traced = keras_contact.in_symbolic_scope() or not backend.is_concrete(given)
        if not is_traced and bool(ops.any(ops.isnan(given))):
            raise ValueError(
                f"The conditioning data of layer {self.name!r} have not been loaded: a "
                "config has their number, the weights have them. Load the weights, or "
                "call `condition(x, y)`."
            )
        matrix = self._noisy(self.covariance_fn(given))
        tril = linalg.cholesky(matrix)
        if not is_traced:
            linalg.check_factor(tril, "covariance_fn(X) + noise")
        deviations = ops.transpose(outputs - self._mean(given))
        if path is not None:
            deviations = deviations - path(given)
            if self.untransformed_noise is not None:
                noise = self.random_weights["path_noise"].draw()
                deviations = deviations - ops.sqrt(self._noise()) * noise
        return given, tril, deviations

    def _noise(self):
        """The variance of the noise, a scalar, or 0.0."""
        if self.untransformed_noise is None:
            return 0.0
        return Softplus()(ops.convert_to_tensor(self.untransformed_noise))

    def _noisy(self, matrix):
        if self.untransformed_noise is None:
            return matrix
        return matrix + self._noise() * ops.eye(matrix.shape[-1], dtype=matrix.dtype)

    def _joint(self, x, loc, explained, with_noise):
        """The distribution at points, with a covariance that data explain a part of."""
        matrix = self.covariance_fn(x)
        if explained is not None:
            matrix = without(matrix, explained)
        if with_noise:
            identity = ops.eye(ops.shape(x)[0], dtype=matrix.dtype)
            matrix = matrix + self._noise() * identity
        zeros = ops.zeros((ops.shape(x)[0], self.units), dtype=matrix.dtype)
        return joint_normal(loc + zeros, matrix)

    def _around(self, function, with_noise):
        """The distribution around a held function: itself, or noisy observations."""
        if self.untransformed_noise is None or not with_noise:
            return Deterministic.rebuild({"loc": function})
        scale = ops.sqrt(self._noise()) * ops.ones_like(function)
        return Normal.rebuild({"loc": function, "scale": scale})

    # Mistakes in training.

    def _check_training(self):
        model = keras_contact.calling_model()
        if isinstance(model, keras.Model):
            self._models.add(model)
        if not self._warns or not self._is_trained():
            return
        steps = max((keras_contact.steps_of_epoch(m) for m in self._models), default=0)
        if self.conditional_inputs is not None:
            if not self.trainable_conditional_inputs:
                self._warn(CONDITIONED)
        elif steps > 1:
            self._warn(MINIBATCH, steps=steps)

    def _is_trained(self):
        if not self.trainable_variables or keras_contact.in_symbolic_scope():
            return False
        if keras_contact.trained_model()[1]:
            return True
        # On JAX only this tells.
        return any(
            backend.is_differentiated(ops.convert_to_tensor(variable))
            for variable in self.trainable_variables
        )

    def _warn(self, message, **values):
        self._warns = False
        warnings.warn(message.format(layer=self.name, **values), stacklevel=4)

    def get_config(self):
        """Returns the constructor's arguments, and the number of conditioning data."""
        return {
            **super().get_config(),
            "noise_variance": self.noise_variance,
            "with_noise": self.with_noise,
            "trainable_noise": self.trainable_noise,
            "trainable_conditional_inputs": self.trainable_conditional_inputs,
            "trainable_conditional_outputs": self.trainable_conditional_outputs,
            "num_conditional": self.num_conditional,
        }
