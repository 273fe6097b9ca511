"""Hierarchical priors: scales of weights that are learnt, and shrink."""

import keras

from bayesian_layers import initializers, regularizers
from bayesian_layers.distributions import LogNormal
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import call_with

_INITIALIZER = (
    'The distribution over the {}: `"trainable_log_normal"` (the default), which '
    "starts at a median of 1."
)
_REGULARIZER = (
    "The KL of that distribution from its prior. Defaults to "
    '`"half_cauchy_kl_divergence"`, a half-Cauchy distribution of scale 1{}.'
)


class Hierarchical(Twin, RandomWeights):
    """A kernel of which whole input features can be shrunk to nothing: a horseshoe.

        kernel = z * local * global,    z ~ Normal(0, 1),
        local ~ HalfCauchy(0, 1) for each input feature, global ~ HalfCauchy(0, 1)

    in the prior; the posterior has independent normal z and log-normal scales. The
    half-Cauchy distributions have much mass near zero, and heavy tails: most features
    are shrunk, some are left as they are. The form is non-centred: z and the scales are
    independent in the prior, and so nearly in the posterior, as its mean field assumes;
    the three are multiplied where the layer is called, at one draw of each for all of a
    batch.

    At the mean (`bl.weights(model, "mean")`) the kernel is the product of the means of
    z, local and global: since they are independent, that is the mean of the kernel
    under the posterior. `layer.kernel` is the mean of z alone; `mean_kernel()` is that
    of the product.

    Reference: Carvalho, Polson and Scott (2010), The horseshoe estimator for sparse
    signals; Louizos, Ullrich and Welling (2017), Bayesian compression for deep
    learning; Ghosh, Yao and Doshi-Velez (2018), Structured variational learning of
    Bayesian neural networks with horseshoe priors.
    """

    is_estimator = True
    own_arguments = {
        "local_scale_initializer": (
            "trainable_log_normal",
            _INITIALIZER.format("scales of input features"),
        ),
        "global_scale_initializer": (
            "trainable_log_normal",
            _INITIALIZER.format("scale of all weights"),
        ),
        "local_scale_regularizer": (
            "half_cauchy_kl_divergence",
            _REGULARIZER.format(""),
        ),
        "global_scale_regularizer": (
            "half_cauchy_kl_divergence",
            _REGULARIZER.format("; a smaller scale says that fewer features matter"),
        ),
    }

    def __init__(
        self,
        *args,
        local_scale_initializer="trainable_log_normal",
        global_scale_initializer="trainable_log_normal",
        local_scale_regularizer="half_cauchy_kl_divergence",
        global_scale_regularizer="half_cauchy_kl_divergence",
        **kwargs,
    ):
        vars(self).update(
            local_scale_initializer=initializers.get(local_scale_initializer),
            global_scale_initializer=initializers.get(global_scale_initializer),
            local_scale_regularizer=regularizers.get(local_scale_regularizer),
            global_scale_regularizer=regularizers.get(global_scale_regularizer),
        )
        for name in ("local_scale", "global_scale"):
            initializer = vars(self)[f"{name}_initializer"]
            if not isinstance(initializer, initializers.Posterior):
                raise ValueError(
                    f"`{name}_initializer` of {type(self).__name__} should be a "
                    'distribution of positive numbers such as "trainable_log_normal". '
                    f"Received: {initializer}"
                )
            regularizers.check(vars(self)[f"{name}_regularizer"], name)
        super().__init__(*args, **kwargs)

    def _check_posterior(self, weight):
        if weight.name.endswith("_scale") and not isinstance(
            weight.posterior, LogNormal
        ):
            raise ValueError(
                f"{type(self).__name__} needs a log-normal distribution for its scales:"
                " they are positive, and the kernel is to have a mean. Received: a "
                f"posterior of {type(weight.posterior).__name__} for {weight.name!r}."
            )

    def build(self, input_shape):
        """Builds the layer, and its scales."""
        super().build(input_shape)
        if "kernel" not in self.random_weights:
            raise ValueError(
                f"{type(self).__name__} needs a kernel with a distribution. Received: "
                f"kernel_initializer={self.kernel_initializer}"
            )
        # What a deterministic layer has ends here.
        known = list(self._layer_weights)
        rows = self.random_weights["kernel"].location.shape[-2]
        self.local_scale = self._add_scale("local_scale", (rows, 1))
        self.global_scale = self._add_scale("global_scale", ())
        self._layer_weights[:] = known

    def _add_scale(self, name, shape):
        initializer = vars(self)[f"{name}_initializer"]
        return self.add_weight(
            shape,
            initializer.with_default("zeros"),
            name=name,
            regularizer=vars(self)[f"{name}_regularizer"],
        )

    def mean_kernel(self):
        """Returns the mean of the kernel, the product of three means."""
        means = [
            self.random_weights[name].posterior.mean()
            for name in ("kernel", "local_scale", "global_scale")
        ]
        return means[0] * means[1] * means[2]

    def estimate(self, call, *args, **kwargs):
        """Returns the outputs of the layer, for one draw of kernel and scales."""
        values = self.draw_weights()
        attribute = self.random_weights["kernel"].attribute
        scales = values.pop("local_scale") * values.pop("global_scale")
        values[attribute] = values[attribute] * scales
        return call_with(self, call, args, kwargs, values)

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        own = {
            name: keras.saving.serialize_keras_object(vars(self)[name])
            for name in self.own_arguments
        }
        return {**super().get_config(), **own}


@twin
class DenseHierarchical(Hierarchical, keras.layers.Dense):
    """`keras.layers.Dense` with a horseshoe prior over the rows of its kernel.

    See `bl.layers.Hierarchical` for the model and its mean.

    Example:
    >>> layer = bl.layers.DenseHierarchical(4)
    >>> ops.shape(layer(np.ones((8, 3)))), len(layer.losses)
    ((8, 4), 3)
    """


@twin
class Conv1DHierarchical(Hierarchical, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with a horseshoe prior over its input channels.

    See `bl.layers.Hierarchical` for the model and its mean.

    Example:
    >>> layer = bl.layers.Conv1DHierarchical(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 3))))
    (2, 6, 4)
    """


@twin
class Conv2DHierarchical(Hierarchical, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with a horseshoe prior over its input channels.

    See `bl.layers.Hierarchical` for the model and its mean.

    Example:
    >>> layer = bl.layers.Conv2DHierarchical(4, 3)
    >>> ops.shape(layer(np.ones((2, 8, 8, 3))))
    (2, 6, 6, 4)
    """
