"""Sparse Gaussian processes: variational inference with inducing points."""

import keras
import numpy as np
from keras import ops

from bayesian_layers import initializers, linalg, regularizers
from bayesian_layers.distributions import (
    Deterministic,
    MultivariateNormalTriL,
    Normal,
)
from bayesian_layers.layers.functions import collapsed
from bayesian_layers.layers.functions.inducing import ProcessKLDivergence
from bayesian_layers.layers.functions.process import (
    Process,
    joint_normal,
    per_unit,
    positive_integer,
    rounding,
    without,
)
from bayesian_layers.layers.register import register


@register
class SparseGaussianProcess(Process):
    """A Gaussian process known by its values at inducing inputs: `Dense` of functions.

    f ~ GP(m, k), and q(u) is a normal distribution over its values u = f(Z) at
    `num_inducing` inputs Z. The layer returns the distribution of f at its inputs,

    q(f(x)) = N(m(x) + a^T (E[u] - m(Z)), k(x, x) - a^T (K - Cov[u]) a),

    with K = k(Z, Z) and a = K^-1 k(Z, x); Z, q(u), and the hyperparameters of m and k
    are trained. It costs O(n M**2 + M**3) for n inputs and M inducing ones, and memory
    linear in n.

    The inducing values are a random weight: `layer.random_weights["inducing_values"]`,
    with their KL from the prior in `losses`. They are whitened by default, u = m(Z) +
    L v with L L^T = K, and v has the prior N(0, I). With a likelihood layer behind it,
    `bl.losses.NegativeLogLikelihood` and `bl.scale_kl`, training maximizes the evidence
    bound of Hensman et al. Several of these layers behind each other are a deep
    Gaussian process (`bl.layers.deep_gaussian_process`): what the next one sees is a
    draw.

    Where `bl.weights` or `bl.predict` hold the layer, it is one function of x over all
    calls: a pathwise draw from q.

    Args:
        units: The number of functions, independent of each other.
        num_inducing: The number M of inducing inputs.
        mean_fn: The mean m: `None` for zero, `"identity"`, or a function or layer from
            `[n, D]` to `[n, units]`.
        covariance_fn: The covariance k: one of `bl.covariances` (`None` is
            `ExponentiatedQuadratic()`), a name, a function of x and z, or a list with
            one for each unit. With `batch_shape=(units,)` a covariance function has
            hyperparameters of its own for each unit.
        inducing_inputs: Where Z starts: an array `[num_inducing, D]`, such as
            `bl.layers.inducing_inputs(x, num_inducing)` (recommended), or an
            initializer. Defaults to standard normal noise, for standardized inputs.
        separate_inducing: Whether each unit has inducing inputs of its own.
        inducing_values_initializer: The posterior q(u):
            `"trainable_multivariate_normal_rows"` (the default), any covariance;
            `"trainable_normal"`, independent values; or an instance, which says where
            it starts.
        inducing_values_regularizer: The prior of whitened values. Defaults to N(0, 1),
            which makes it that of the process.
        whiten: Whether q is over v instead of u.
        full_covariance: Whether the output is a `JointNormal` over all inputs of a call
            instead of independent normal distributions.
        trainable_inducing_inputs: Whether Z is trained.
        num_path_features: The number of random features of a held function.
        **kwargs: `convert`, `seed`, `kl_scale`, and as in `keras.Layer`.

    Inputs of shape `[..., D]` give outputs `[..., units]`; with `full_covariance` they
    have to be `[n, D]`.

    Example:
    >>> x = np.linspace(-2.0, 2.0, 64)[:, None].astype("float32")
    >>> model = keras.Sequential([
    ...     keras.Input((1,)),
    ...     bl.layers.SparseGaussianProcess(
    ...         1, 8, inducing_inputs=bl.layers.inducing_inputs(x, 8, seed=0)
    ...     ),
    ...     bl.layers.GaussianLikelihood(),
    ... ])
    >>> bl.scale_kl(model, dataset_size=64)
    >>> model.compile("adam", bl.losses.NegativeLogLikelihood())
    >>> history = model.fit(x, np.sin(x), verbose=0)
    >>> ops.shape(model.layers[0](x).stddev())
    (64, 1)

    References: Titsias (2009), Variational learning of inducing variables in sparse
    Gaussian processes; Hensman, Fusi and Lawrence (2013), Gaussian processes for big
    data; Wilson et al. (2020), Efficiently sampling functions from Gaussian process
    posteriors.
    """

    def __init__(
        self,
        units,
        num_inducing,
        mean_fn=None,
        covariance_fn=None,
        *,
        inducing_inputs=None,
        separate_inducing=False,
        inducing_values_initializer="trainable_multivariate_normal_rows",
        inducing_values_regularizer="normal_kl_divergence",
        whiten=True,
        full_covariance=False,
        trainable_inducing_inputs=True,
        num_path_features=1024,
        **kwargs,
    ):
        super().__init__(units, mean_fn, covariance_fn, num_path_features, **kwargs)
        self.num_inducing = positive_integer("num_inducing", num_inducing)
        self.separate_inducing = separate_inducing
        self.inducing_inputs_initializer = _initializer_of_inputs(inducing_inputs)
        self.inducing_values_initializer = initializers.get(inducing_values_initializer)
        self.inducing_values_regularizer = regularizers.get(inducing_values_regularizer)
        self.whiten = whiten
        self.full_covariance = full_covariance
        self.trainable_inducing_inputs = trainable_inducing_inputs
        if not isinstance(self.inducing_values_initializer, initializers.Posterior):
            raise ValueError(
                "`inducing_values_initializer` should be a distribution such as "
                '"trainable_multivariate_normal_rows" or "trainable_normal". Received: '
                f"inducing_values_initializer={inducing_values_initializer!r}"
            )

    def build(self, input_shape):
        """Makes the inducing inputs and values."""
        super().build(input_shape)
        shape = (self.num_inducing, input_shape[-1])
        if self.separate_inducing:
            shape = (self.units, *shape)
        _check_inputs(self.inducing_inputs_initializer, shape)
        dtype = self._float_dtype()
        self.inducing_inputs = self.add_weight(
            shape,
            self.inducing_inputs_initializer,
            name="inducing_inputs",
            trainable=self.trainable_inducing_inputs,
            dtype=dtype,
            autocast=False,
        )
        regularizer = self.inducing_values_regularizer
        self.inducing_values = self.add_weight(
            (self.units, self.num_inducing),
            self.inducing_values_initializer.with_default("zeros"),
            name="inducing_values",
            regularizer=regularizer if self.whiten else ProcessKLDivergence(self),
            dtype=dtype,
        )
        if not self.whiten:
            weight = self.random_weights["inducing_values"]
            weight.prior_variables = self._prior_variables()

    def _prior_variables(self):
        variables = [self.inducing_inputs, *self.covariance_fn.variables]
        if isinstance(self.mean_fn, keras.Layer):
            variables += self.mean_fn.variables
        return variables

    def _check_posterior(self, weight):
        families = (MultivariateNormalTriL, Normal, Deterministic)
        if not isinstance(weight.posterior, families):
            raise ValueError(
                f"{type(self).__name__} expects a posterior over its inducing values "
                "that is normal, with independent units: "
                '"trainable_multivariate_normal_rows", "trainable_normal" or '
                f'"trainable_deterministic". Received: {weight.initializer}'
            )

    # The prior at the inducing inputs.

    def inducing_points(self):
        """Returns the inducing inputs, `[M, D]` or `[units, M, D]`."""
        return ops.convert_to_tensor(self.inducing_inputs)

    def mean_at_inducing_points(self):
        """Returns the mean there, `[units, M]`, or 0.0."""
        points = self.inducing_points()
        if self.mean_fn is None:
            return 0.0
        mean = self._mean(ops.reshape(points, (-1, points.shape[-1])))
        mean = mean + ops.zeros((mean.shape[0], self.units), dtype=mean.dtype)
        if not self.separate_inducing:
            return ops.transpose(mean)
        mean = ops.reshape(mean, (self.units, self.num_inducing, self.units))
        return ops.transpose(ops.diagonal(mean, axis1=0, axis2=2))

    # The distribution at points.

    def at(self, x):
        """Returns the distribution at points `[..., D]`."""
        if len(x.shape) > 2 and not self.full_covariance:
            leading = ops.shape(x)[:-1]
            flat = self._at(ops.reshape(x, (-1, x.shape[-1])))
            return flat._map(lambda p: ops.reshape(p, (*leading, self.units)))
        if len(x.shape) != 2:
            raise ValueError(
                f"Layer {self.name!r} expects inputs [n, D] for the covariance over "
                f"all of them. Received: inputs of shape {tuple(x.shape)}"
            )
        return self._at(x)

    def _at(self, x):
        points = self.inducing_points()
        tril = linalg.cholesky(self.covariance_fn(points))
        # L^-1 k(Z, x), of shape [M, n] or [units, M, n].
        whitened = linalg.solve_lower(tril, self.covariance_fn(points, x))
        mean = self._mean(x)
        weight = self.random_weights["inducing_values"]
        if self.is_held():
            path = self.draw_path()
            values = self._whitened(weight.draw(), tril, path(points))
            function = path(x) + per_unit(values, whitened)
            return Deterministic.rebuild({"loc": mean + ops.transpose(function)})
        if weight.is_wanted():
            values = self._whitened(weight.draw(), tril, 0.0)
            deviation, spread = per_unit(values, whitened), None
        else:
            deviation, spread = self._marginalized(weight, tril, whitened)
        loc = mean + ops.transpose(deviation)
        if self.full_covariance:
            return self._joint(x, loc, whitened, spread)
        return self._marginal(x, loc, whitened, spread)

    def _whitened(self, values, tril, path):
        """Draws of the inducing values without a path, by L^-1: `[units, M]`."""
        if self.whiten:
            if isinstance(path, float):
                return values
            return values - linalg.solve_lower_vectors(tril, path)
        deviations = values - self.mean_at_inducing_points() - path
        return linalg.solve_lower_vectors(tril, deviations)

    def _marginalized(self, weight, tril, whitened):
        """The mean of f - m, `[units, n]`, and a root R of what q(u) adds.

        R has shape `[units, M, n]`: the covariance that it adds is R^T R.
        """
        posterior = weight.posterior
        projection, loc = whitened, posterior.mean()
        if not self.whiten:
            projection = linalg.solve_lower(tril, whitened, transposed=True)
            loc = loc - self.mean_at_inducing_points()
        deviation = per_unit(loc, projection)
        if isinstance(posterior, Deterministic):
            return deviation, None
        if isinstance(posterior, Normal):
            return deviation, posterior.scale[..., None] * projection
        return deviation, ops.swapaxes(posterior.scale_tril, -1, -2) @ projection

    def _marginal(self, x, loc, whitened, spread):
        prior = self.covariance_fn.diagonal(x)
        variance = prior - ops.sum(ops.square(whitened), axis=-2)
        if spread is not None:
            variance = variance + ops.sum(ops.square(spread), axis=-2)
        scale = ops.sqrt(ops.maximum(variance, rounding(prior)))
        scale = ops.transpose(scale) if len(scale.shape) == 2 else scale[:, None]
        scale = ops.broadcast_to(scale, ops.shape(loc))
        return Normal.rebuild({"loc": loc, "scale": scale})

    def _joint(self, x, loc, whitened, spread):
        matrix = without(self.covariance_fn(x), _gram(whitened))
        if spread is not None:
            matrix = matrix + _gram(spread)
        return joint_normal(loc, matrix)

    # Gaussian noise: the optimum in closed form.

    def collapsed_bound(self, x, y, noise_variance):
        """The evidence bound of data with Gaussian noise, for the best q(u).

        log N(y | m(x), Q + s I) - tr(K - Q) / (2 s), with s the noise variance and
        Q = k(x, Z) k(Z, Z)^-1 k(Z, x); q(u) does not matter. See Titsias (2009).

        Args:
            x: All inputs `[N, D]`.
            y: All targets `[N, units]`.
            noise_variance: A positive number or scalar tensor.

        Returns:
            A scalar, in nats, through which gradients flow.
        """
        return collapsed.bound(self, *self._data(x, y), noise_variance)

    def condition(self, x, y, noise_variance):
        """Sets q(u) to its optimum for data with Gaussian noise, and returns the bound.

        For the hyperparameters as they are. It is a warm start, or all the training
        that q(u) needs if the hyperparameters are known.

        Args:
            x: All inputs `[N, D]`.
            y: All targets `[N, units]`.
            noise_variance: A positive number.

        Returns:
            The `collapsed_bound`. With a full covariance q(u) attains it.

        Example:
        >>> x = np.linspace(-2.0, 2.0, 64)[:, None].astype("float32")
        >>> layer = bl.layers.SparseGaussianProcess(1, 8, inducing_inputs=x[::8])
        >>> bound = layer.condition(x, np.sin(x), noise_variance=0.01)
        >>> mean = ops.convert_to_numpy(layer(x).mean())
        >>> bool(np.max(np.abs(mean - np.sin(x))) < 0.1)
        True
        """
        x, y = self._data(x, y)
        collapsed.assign_optimum(self, x, y, noise_variance)
        return collapsed.bound(self, x, y, noise_variance)

    def _data(self, x, y):
        dtype = self._float_dtype()
        x = ops.convert_to_tensor(x, dtype)
        y = ops.convert_to_tensor(y, dtype)
        if len(y.shape) == 1:
            y = y[:, None]
        if len(x.shape) != 2 or tuple(y.shape) != (x.shape[0], self.units):
            raise ValueError(
                f"Expected `x` of shape [N, D] and `y` of shape [N, {self.units}]. "
                f"Received: x.shape={tuple(x.shape)}, y.shape={tuple(y.shape)}"
            )
        if not self.built:
            self.build(tuple(x.shape))
        return x, y

    def get_config(self):
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "num_inducing": self.num_inducing,
            "inducing_inputs": serialize(self.inducing_inputs_initializer),
            "separate_inducing": self.separate_inducing,
            "inducing_values_initializer": serialize(self.inducing_values_initializer),
            "inducing_values_regularizer": serialize(self.inducing_values_regularizer),
            "whiten": self.whiten,
            "full_covariance": self.full_covariance,
            "trainable_inducing_inputs": self.trainable_inducing_inputs,
        }


def _gram(columns):
    return ops.swapaxes(columns, -1, -2) @ columns


def _initializer_of_inputs(inputs):
    """The initializer of inducing inputs, from an initializer or from an array."""
    if inputs is None:
        return keras.initializers.RandomNormal(stddev=1.0)
    if not isinstance(inputs, (str, dict)) and not callable(inputs):
        return keras.initializers.Constant(np.asarray(inputs, "float32"))
    initializer = initializers.get(inputs)
    if isinstance(initializer, initializers.Posterior):
        raise ValueError(
            "`inducing_inputs` should be an array or an initializer of one value: "
            f"they have no distribution. Received: inducing_inputs={inputs!r}"
        )
    return initializer


def _check_inputs(initializer, shape):
    value = getattr(initializer, "value", 0.0)
    received = np.shape(value)
    if received and received not in (shape, shape[-2:]):
        raise ValueError(
            f"`inducing_inputs` should be an array of shape {shape}. "
            f"Received: inducing_inputs.shape={received}"
        )
