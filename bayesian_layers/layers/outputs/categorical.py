"""Categorical outputs."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.output_layer import OutputLayer
from bayesian_layers.layers.register import register


@register
class Categorical(OutputLayer):
    """An output that is one of k classes, as an integer from 0 to k - 1.

    y ~ Categorical(softmax(logits(x)))

    Without `units` it takes logits `[..., k]` to `[...]`. With `units` a trainable
    linear map makes `k = units` logits from the inputs. The class probabilities are
    `model(x).distribution.probs`, averaged over draws of the weights
    `bl.predict(model, x).probs`.

    Args:
        units: The number k of classes, or `None`.
        convert: What other layers and metrics see: `"sample"` (the default) or
            `"mode"`, the most probable class.
        seed: Integer seed of the draws. Defaults to a random one.
        kernel_initializer: Initializer of the linear map.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.Categorical()
    >>> y = layer(np.zeros((8, 4)))
    >>> ops.shape(y)
    (8,)
    >>> round(float(y.entropy()[0]), 4) == round(float(np.log(4.0)), 4)
    True
    """

    sample_dtype = "int32"

    def sizes(self, count):
        return {"logits": count}

    def output_shape_of(self, batch, count):
        return batch

    def distribution(self, logits):
        return distributions.Categorical(logits)
