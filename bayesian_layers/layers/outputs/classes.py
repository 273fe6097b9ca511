"""Outputs that are classes."""

from bayesian_layers import distributions
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.register import register


@register
class Categorical(FamilyLayer):
    """An output that is one of k classes, as an integer from 0 to k - 1.

    y ~ Categorical(softmax(logits(x)))

    Without `units` it takes logits `[..., k]` to `[...]`. With `units` a trainable
    linear map makes `k = units` logits from the inputs. The class probabilities are
    `model(x).distribution.probs`, averaged over draws of the weights
    `bl.predict(model, x).probs`. For the accuracy in training use
    `bl.metrics.Accuracy`, which takes the most probable class. Other arguments as in
    `bl.layers.Normal`; there is no mean to convert to.

    Example:
    >>> layer = bl.layers.Categorical()
    >>> y = layer(np.zeros((8, 4)))
    >>> ops.shape(y)
    (8,)
    >>> round(float(y.entropy()[0]), 4) == round(float(np.log(4.0)), 4)
    True
    """

    family = distributions.Categorical


@register
class OneHotCategorical(FamilyLayer):
    """An output that is one of k classes, as a vector of zeros and a one.

    y ~ OneHotCategorical(softmax(logits(x))); `[..., k] -> [..., k]`, or `k = units`
    from a trainable linear map. Other arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.OneHotCategorical(4)(np.zeros((8, 3))))
    (8, 4)
    """

    family = distributions.OneHotCategorical


@register
class Bernoulli(FamilyLayer):
    """An output that is 0 or 1.

    y ~ Bernoulli(sigmoid(logits(x))); `[..., n] -> [..., n]`, or `n = units` from a
    trainable linear map. Other arguments as in `bl.layers.Normal`.

    Example:
    >>> ops.shape(bl.layers.Bernoulli()(np.zeros((8, 3))))
    (8, 3)
    """

    family = distributions.Bernoulli
