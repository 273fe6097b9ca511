"""Estimators of layers that are linear in their kernel."""

from bayesian_layers.layers.weights.random_weights import RandomWeights
from bayesian_layers.layers.weights.reading import attribute_of
from bayesian_layers.trace import is_tracing


class LinearEstimator(RandomWeights):
    """Base of the estimators that need more than one affine map, or another, per call.

    A subclass writes `estimate(inputs, distribution, bias)`: the pre-activations,
    given the distribution of the kernel and a draw of the bias. Where handlers are in
    force, which want to see and to set the weights, there is one draw of the kernel
    for all of the batch instead.
    """

    def call(self, inputs):
        """Returns the outputs of the layer."""
        kernel = self.random_weights.get("kernel")
        if kernel is None or is_tracing():
            return self.call_with(inputs, **self.draw())
        self._refuse_time_distributed()
        outputs = self.estimate(inputs, kernel, self._draw_bias())
        return outputs if self.activation is None else self.activation(outputs)

    def _draw_bias(self):
        bias = self.random_weights.get("bias")
        return self.bias if bias is None else self.to_compute_dtype(bias.draw())

    def affine(self, inputs, kernel, bias=None, **values):
        """Keras' own `call` with this kernel and bias, before the activation."""
        attribute = attribute_of(self, self.random_weights["kernel"])
        return self.call_with(
            inputs,
            activation=None,
            bias=bias,
            use_bias=bias is not None,
            **{attribute: self.to_compute_dtype(kernel)},
            **values,
        )
