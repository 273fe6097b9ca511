"""Estimators of products with a random kernel."""

from keras import ops

from bayesian_layers.layers.weights.twins import Twin
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import (
    call_with,
    without_bias_and_activation,
)


class KernelEstimator(Twin, RandomWeights):
    """Base of the estimators that do not draw one kernel for all of a batch.

    The product of inputs with a random kernel is that with the kernel's location plus a
    deviation, which is what an estimator is about. It writes

    - `begin(kernel, posterior, input_shape, output_shape, seed)`: what it draws once
      for a call (or for a sequence, in a recurrent cell), given the `RandomWeight`, its
      distribution, and the shapes of the inputs and of their product with the kernel;
    - `deviation(drawn, inputs, product)`: the deviation, given what `begin` returned
      and `product(inputs, kernel)`, which is linear in both.

    It serves every layer whose `call` is `activation(product(inputs, kernel) + bias)`
    with attributes `kernel`, and `bias` and `activation` if there are any, and, by
    `RandomCell`, recurrent cells. Where a handler wants to see or to set the kernel,
    there is one draw of it for all of the batch instead.

    An estimator that cannot use every distribution for the `kernels` states those it
    can, `posteriors`, and the `requirement` in words.
    """

    kernels = ("kernel",)
    posteriors = ()
    requirement = ""

    def begin(self, kernel, posterior, input_shape, output_shape, seed):
        """Returns what is drawn once for a call."""
        raise NotImplementedError

    def deviation(self, drawn, inputs, product):
        """Returns what is added to the product with the kernel's location."""
        raise NotImplementedError

    def _estimated_kernels(self):
        """Returns the random kernels by name, but for those that a handler wants."""
        return {
            name: weight
            for name, weight in self.random_weights.items()
            if name in self.kernels and not weight.is_wanted()
        }

    def estimate(self, call, inputs, *args, **kwargs):
        """Returns the outputs of the layer."""
        kernel = self._estimated_kernels().get("kernel")
        if kernel is None:
            return super().estimate(call, inputs, *args, **kwargs)
        posterior = kernel.posterior
        others = self.draw_weights(names=set(self.random_weights) - {"kernel"})
        linear = without_bias_and_activation(self)

        def product(inputs, kernel_value, **values):
            values = {**others, **linear, **values}
            values[kernel.attribute] = ops.cast(kernel_value, inputs.dtype)
            if values.get("bias") is not None:
                values["bias"] = ops.cast(values["bias"], inputs.dtype)
            return call_with(self, call, (inputs, *args), kwargs, values)

        with_bias = {
            name: others.get(name, vars(self)[name])
            for name in ("bias", "use_bias")
            if name in linear
        }
        outputs = product(inputs, posterior.loc, **with_bias)
        shapes = ops.shape(inputs), ops.shape(outputs)
        drawn = self.begin(kernel, posterior, *shapes, self.draw_seed_generator)
        outputs = outputs + ops.cast(
            self.deviation(drawn, inputs, product), outputs.dtype
        )
        activation = vars(self).get("activation")
        return outputs if activation is None else activation(outputs)

    def _check_posterior(self, weight):
        if weight.name not in self.kernels or not self.posteriors:
            return
        if not isinstance(weight.posterior, self.posteriors):
            raise ValueError(
                f"{type(self).__name__} needs a kernel with {self.requirement}. "
                f"Received: a posterior of {type(weight.posterior).__name__} for "
                f"{weight.name!r}. Use {self._instead()} instead."
            )

    def _instead(self):
        family = getattr(self.keras_counterpart, "__name__", "")
        return f"{family}Reparameterization"
