"""Layers of Keras that compute the means of output layers."""

import keras

from bayesian_layers import distributions
from bayesian_layers.conversion.copying import array_of
from bayesian_layers.distributions.transforms import Identity
from bayesian_layers.layers.outputs.family_layer import FamilyLayer

# Of each family the parameter that the mean is a function of, and the function. The
# mean of classes is their probabilities.
_MEANS = {
    distributions.Normal: ("loc", "linear"),
    distributions.Laplace: ("loc", "linear"),
    distributions.Logistic: ("loc", "linear"),
    distributions.StudentT: ("loc", "linear"),
    distributions.Deterministic: ("loc", "linear"),
    distributions.MultivariateNormalDiag: ("loc", "linear"),
    distributions.MultivariateNormalTriL: ("loc", "linear"),
    distributions.MultivariateNormalLowRank: ("loc", "linear"),
    distributions.Bernoulli: ("logits", "sigmoid"),
    distributions.Categorical: ("logits", "softmax"),
    distributions.OneHotCategorical: ("logits", "softmax"),
}


def has_mean_layer(layer):
    """Whether the mean of an output layer is a layer of Keras."""
    if not isinstance(layer, FamilyLayer) or layer.family not in _MEANS:
        return False
    name, _ = _MEANS[layer.family]
    return name in layer.sizes(1) and layer.map_of(name) == Identity()


def mean_layer(layer):
    """Returns a layer of Keras that computes the mean of an output layer.

    With `units` it is a `Dense` with the columns of the parameter that the mean
    depends on. Without, it takes these columns from the inputs: all of them, and it is
    an `Activation`, or some, and it is a `Dense` of ones and zeros that does not train.

    Args:
        layer: An output layer, built, with `has_mean_layer`.
    """
    parameter, activation = _MEANS[layer.family]
    (columns,) = layer.get_build_config()["input_shape"][-1:]
    count = layer.units or layer._count(columns)
    start, sizes = 0, layer._sizes(count)
    for name, size in sizes.items():
        if name == parameter:
            break
        start += size
    taken = slice(start, start + sizes[parameter])
    arguments = {"name": layer.name, "dtype": layer.dtype_policy}
    if layer.projection is not None:
        kernel, bias = map(array_of, (layer.projection.kernel, layer.projection.bias))
        weights = [kernel[:, taken], bias[taken]]
        arguments["trainable"] = layer.trainable
    elif sizes[parameter] == columns:
        return keras.layers.Activation(activation, **arguments)
    else:
        weights = [keras.ops.convert_to_numpy(keras.ops.eye(columns))[:, taken]]
        arguments.update(use_bias=False, trainable=False)
    mean = keras.layers.Dense(sizes[parameter], activation=activation, **arguments)
    mean.build((None, columns))
    mean.set_weights(weights)
    return mean
