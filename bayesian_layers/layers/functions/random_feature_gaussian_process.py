"""The head of a spectral-normalized neural Gaussian process (SNGP)."""

import math
import warnings

import keras
from keras import ops

from bayesian_layers import backend, initializers, keras_contact
from bayesian_layers.covariances import ExponentiatedQuadratic
from bayesian_layers.distributions import Deterministic, Normal
from bayesian_layers.layers.functions import laplace
from bayesian_layers.layers.functions.fourier_features import FourierFeatures
from bayesian_layers.layers.register import register
from bayesian_layers.mean_field import mean_field_logits
from bayesian_layers.random_variable import RandomVariable

NEVER_RESET = (
    "{name!r} adds up the information in all examples that it sees in training, and "
    "has never been reset: over several epochs each example counts several times, and "
    "the variance gets too small. Train with "
    "`fit(..., callbacks=[bl.callbacks.ResetPrecision()])`, or call "
    "`layer.reset_precision()` at the start of each epoch."
)
NO_DATA = (
    "{name!r} has seen no examples in training, and its weights were not loaded: the "
    "variance that it returns is that of the prior."
)


@register
class RandomFeatureGaussianProcess(FourierFeatures):
    """A Gaussian process on top of a network, by Laplace's approximation.

    f(x) = phi(x) @ beta^T, phi(x) = sqrt(2 / F) amplitude cos(x / lengthscale @ Omega
    + b), with random features phi that are fixed (see `bl.layers.
    RandomFourierFeatures`) and weights beta `[units, F]` with prior Normal(0, 1 /
    sqrt(ridge_penalty)). beta trains like the weights of a `Dense` layer; the posterior
    around it is normal, with the precision

        P = ridge_penalty I + sum_n c_n phi(x_n) phi(x_n)^T,

    where c_n is the second derivative of the negative log-likelihood of example n by
    f: p (1 - p) for classes, 1 / noise_variance for numbers. In each call in training
    the layer adds the examples of the batch to P.

    In training it returns f(x), in inference a random variable Normal(f(x), sqrt(
    phi(x)^T P^-1 phi(x))), which is wide where there were no examples: that of the
    function, without the noise of a Gaussian likelihood. With a `mean_field_factor` it
    returns tensors instead: f(x) in training and `bl.mean_field_logits` in inference,
    so that losses and metrics of Keras see calibrated logits.

    *The penalty.* beta is at the mode of the posterior if the loss is the mean of the
    negative log-likelihoods of N examples plus ridge_penalty / (2 N) |beta|^2. The
    penalty is in `losses`; `bl.scale_kl(model, dataset_size=N)` divides it by N, as it
    does with divergences, and `fit` warns if nobody did.

    *The precision.* It has to be set to the prior's at the start of each epoch, or
    examples count again in each: by `bl.callbacks.ResetPrecision`. After `fit` P is
    that of the last epoch. Its factor is computed once for each evaluation by the
    callback or `update_covariance()`, and otherwise in each call: it is never that of
    an earlier P. Weights of samples are not known to a layer, and do not count;
    masked elements of a sequence are left out.

    *Classes.* The second derivatives of the softmax couple the classes; as in the
    paper only the diagonal ones are used. With `shared_precision` there is one P for
    all units, with the largest c_n of all units: an upper bound on each precision, so
    that the variance is a lower bound, the same for all units. Without it there is one
    for each unit, at `units` times the cost and memory (`units * F * F` numbers). For
    two classes, one unit, and the Gaussian likelihood both are the same.

    *One function.* Within `bl.weights(model, seed=7)` and in each draw of `bl.predict`,
    beta is one draw from its posterior and the layer returns the values of one
    function; with `bl.weights(model, "mean")` f(x). It is `random_weights[
    "coefficients"]` to handlers.

    The covariance's hyperparameters train if they are trainable; those of the default
    are fixed. They may not be random: the features are those of one covariance.

    Args:
        units: The number of functions: classes, or numbers to predict.
        num_features: The number F of features. Defaults to 1024.
        covariance_fn: A covariance of distances, or its name. Defaults to an
            `ExponentiatedQuadratic` of amplitude 1 and lengthscale sqrt(D) that does
            not train, for D inputs of a scale of about one; put a
            `keras.layers.LayerNormalization` before the layer if they are not.
        likelihood: `"categorical"` (softmax over the units), `"bernoulli"` (a sigmoid
            for each unit) or `"gaussian"`.
        noise_variance: The variance of the noise of the Gaussian likelihood, positive;
            for no other. The loss has to have it too: `"mse"` is that for 1 / 2.
        ridge_penalty: The precision of the prior of beta, positive. Defaults to 1.
        shared_precision: Whether the units share a precision matrix.
        mean_field_factor: Number for `bl.mean_field_logits`, such as pi / 8, for
            likelihoods of classes; or `None`, to return a random variable.
        coefficients_initializer: Initializer of beta. Defaults to zeros.
        seed: Integer seed of draws, and of the features. Defaults to a random one.
        **kwargs: `kl_scale`, and those of `keras.Layer`.

    Shapes: `[..., D]` to `[..., units]`, in float32 or better.

    Example:
    >>> head = bl.layers.RandomFeatureGaussianProcess(3, num_features=64, seed=1)
    >>> model = keras.Sequential([keras.Input((2,)), head])
    >>> loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile("adam", loss)
    >>> bl.scale_kl(model, dataset_size=30)
    >>> x, y = np.random.normal(size=(30, 2)), np.arange(30) % 3
    >>> history = model.fit(
    ...     x, y, verbose=0, callbacks=[bl.callbacks.ResetPrecision()]
    ... )
    >>> near, far = ops.convert_to_numpy(head(np.array([[0, 0], [9, 9]])).stddev())
    >>> bool(near[0] < far[0])
    True

    References: Liu et al. (2020), Simple and principled uncertainty estimation with
    deterministic deep learning via distance awareness; Liu et al. (2023), A simple
    approach to improve single-model deep uncertainty via distance-awareness.
    """

    def __init__(
        self,
        units,
        num_features=1024,
        covariance_fn=None,
        likelihood="categorical",
        *,
        noise_variance=None,
        ridge_penalty=1.0,
        shared_precision=True,
        mean_field_factor=None,
        coefficients_initializer="zeros",
        **kwargs,
    ):
        super().__init__(units, num_features, covariance_fn, **kwargs)
        self.supports_masking = True
        self.likelihood = likelihood
        self.noise_variance = noise_variance
        self.ridge_penalty = ridge_penalty
        self.shared_precision = bool(shared_precision)
        self.mean_field_factor = mean_field_factor
        self.coefficients_initializer = keras.initializers.get(coefficients_initializer)
        self._has_default_covariance = covariance_fn is None
        self._has_been_reset = self._has_seen_data = False
        self._check_arguments()

    def _check_arguments(self):
        if self.likelihood not in laplace.LIKELIHOODS:
            raise ValueError(
                f"`likelihood` should be one of {laplace.LIKELIHOODS}. "
                f"Received: likelihood={self.likelihood!r}"
            )
        is_gaussian = self.likelihood == "gaussian"
        noise = self.noise_variance
        if is_gaussian != (noise is not None) or not (noise is None or noise > 0):
            raise ValueError(
                "`noise_variance`, a positive number, belongs to the Gaussian "
                f"likelihood, which needs it. Received: noise_variance={noise}, "
                f"likelihood={self.likelihood!r}"
            )
        if self.likelihood == "categorical" and self.units < 2:
            raise ValueError(
                "The categorical likelihood needs a unit for each class; for two "
                'classes and one unit give likelihood="bernoulli". '
                f"Received: units={self.units}"
            )
        if not self.ridge_penalty > 0:
            raise ValueError(
                "`ridge_penalty` should be positive. "
                f"Received: ridge_penalty={self.ridge_penalty}"
            )
        if isinstance(self.coefficients_initializer, initializers.Posterior):
            raise ValueError(
                "The posterior of the coefficients is the layer's own: "
                "`coefficients_initializer` should be an initializer of Keras. Received"
                f": coefficients_initializer={self.coefficients_initializer}"
            )
        factor = self.mean_field_factor
        if factor is not None and (is_gaussian or not factor >= 0):
            raise ValueError(
                "`mean_field_factor`, not negative, belongs to logits of classes. "
                f"Received: mean_field_factor={factor}, likelihood={self.likelihood!r}"
            )

    def build(self, input_shape):
        """Draws the features, and makes the weights and their precision."""
        if self.covariance_fn is None:
            self.covariance_fn = ExponentiatedQuadratic(
                lengthscale=math.sqrt(input_shape[-1]),
                fixed=("amplitude", "lengthscale"),
                dtype=self.dtype_policy,
            )
        super().build(input_shape)
        weights = self.covariance_fn.random_weights.values()
        if any(not isinstance(w.posterior, Deterministic) for w in weights):
            raise ValueError(
                "RandomFeatureGaussianProcess needs a covariance whose hyperparameters "
                f"are no random ones. Received: covariance_fn={self.covariance_fn}"
            )
        size = self.num_features
        self.projection = self._add(
            "projection", self._projection_shape, self._standard_normal()
        )
        self.coefficients = self.add_weight(
            shape=(self.units, size),
            initializer=self.coefficients_initializer,
            name="coefficients",
            dtype=self.precision,
            autocast=False,
        )
        is_shared = self.shared_precision or self.likelihood == "gaussian"
        shape = (size, size) if is_shared else (self.units, size, size)
        self.information = self._add("information", shape, "zeros")
        self.scale_tril = self._add("scale_tril", shape, "zeros")
        self.is_current = self._add("is_current", (), "zeros")
        self.random_weights["coefficients"] = laplace.LaplaceWeight(
            self, "coefficients", self.coefficients, self.ridge_penalty
        )
        self._add_kl_scale()

    def _add(self, name, shape, initializer):
        return self.add_weight(
            shape=shape,
            initializer=initializer,
            name=name,
            dtype=self.precision,
            trainable=False,
            autocast=False,
        )

    # The precision.

    def reset_precision(self):
        """Sets the precision to that of the prior: no examples have been seen."""
        shape = self.information.shape
        self.information.assign(ops.zeros(shape, dtype=self.information.dtype))
        self.is_current.assign(0.0)
        self._has_been_reset = True

    def update_covariance(self):
        """Computes the covariance of the weights, unless it is that of P already.

        Calls in inference then use it; without, each computes it for itself.
        """
        if not bool(ops.convert_to_numpy(self.is_current)):
            self.scale_tril.assign(
                laplace.compiled_covariance_factor(
                    ops.convert_to_tensor(self.information),
                    ops.convert_to_tensor(self.ridge_penalty, self.precision),
                )
            )
            self.is_current.assign(1.0)

    def current_factor(self):
        """Returns the lower triangular factor of the covariance P^-1 of the weights.

        Of shape `[F, F]`, or `[units, F, F]` if each unit has its own.
        """
        is_current = ops.convert_to_tensor(self.is_current)

        def compute():
            information = ops.convert_to_tensor(self.information)
            return laplace.covariance_factor(information, self.ridge_penalty)

        def kept():
            return ops.convert_to_tensor(self.scale_tril)

        if backend.is_concrete(is_current):
            return kept() if bool(is_current > 0.5) else compute()
        return ops.cond(is_current > 0.5, kept, compute)

    def _accumulate(self, features, logits, mask):
        weights = laplace.curvature(self.likelihood, logits, self.noise_variance)
        if len(self.information.shape) == 2:
            weights = ops.max(weights, axis=-1, keepdims=True)
        if mask is not None:
            weights = weights * ops.cast(mask, weights.dtype)[..., None]
        information = laplace.information(
            ops.reshape(features, (-1, self.num_features)),
            ops.reshape(weights, (-1, weights.shape[-1])),
        )
        information = ops.reshape(information, self.information.shape)
        self.information.assign_add(ops.stop_gradient(information))
        self.is_current.assign(0.0)

    # Calling.

    def call(self, inputs, training=None, mask=None):
        """Returns the functions: their values in training, else what is known of them.

        Args:
            inputs: A tensor `[..., D]`.
            training: Whether to add the examples to the precision.
            mask: Booleans `[...]`: which of them count.

        Returns:
            A random variable `[..., units]`, or a tensor if there is a
            `mean_field_factor`.
        """
        features = self.features(inputs, ops.convert_to_tensor(self.projection))
        values = ops.matmul(features, ops.transpose(self.coefficients))
        if training:
            self._warn(NEVER_RESET, unless=self._has_been_reset)
            self._accumulate(features, values, mask)
            self._has_seen_data = True
        weight = self.random_weights["coefficients"]
        if weight.is_wanted():
            values = ops.matmul(features, ops.transpose(weight.draw()))
            return self._returned(values)
        if training:
            return self._returned(values)
        self._warn(NO_DATA, unless=self._has_seen_data)
        return self._returned(values, self._variance(features))

    def _variance(self, features):
        """phi(x)^T P^-1 phi(x), `[..., units]`."""
        factor = ops.stop_gradient(self.current_factor())
        if len(factor.shape) == 2:
            squares = ops.square(ops.matmul(features, factor))
            variance = ops.sum(squares, axis=-1, keepdims=True)
            shape = (*ops.shape(features)[:-1], self.units)
            return ops.broadcast_to(variance, shape)
        products = ops.einsum("...f,ufg->...ug", features, factor)
        return ops.sum(ops.square(products), axis=-1)

    def _returned(self, values, variance=None):
        if self.mean_field_factor is not None:
            if variance is None:
                return values
            return mean_field_logits(values, variance, self.mean_field_factor)
        if variance is None:
            distribution = Deterministic.rebuild({"loc": values})
        else:
            distribution = Normal.rebuild({"loc": values, "scale": ops.sqrt(variance)})
        return RandomVariable(
            distribution,
            name=keras_contact.called_path(self),
            seed=self.draw_seed_generator,
        )

    def _warn(self, message, *, unless):
        if not unless and not keras_contact.in_symbolic_scope():
            warnings.warn(message.format(name=self.name), stacklevel=2)

    def compute_output_spec(self, inputs, training=None, mask=None):
        """Returns the shape and dtype of the random variable."""
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.precision)

    # Saving.

    def load_own_variables(self, store):
        """Loads all variables, with the precision."""
        super().load_own_variables(store)
        self._has_seen_data = True

    def set_weights(self, weights):
        """Sets the weights, with the precision."""
        super().set_weights(weights)
        self._has_seen_data = True

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        if self._has_default_covariance:
            config["covariance_fn"] = None
        return {
            **config,
            "likelihood": self.likelihood,
            "noise_variance": self.noise_variance,
            "ridge_penalty": self.ridge_penalty,
            "shared_precision": self.shared_precision,
            "mean_field_factor": self.mean_field_factor,
            "coefficients_initializer": keras.saving.serialize_keras_object(
                self.coefficients_initializer
            ),
        }
