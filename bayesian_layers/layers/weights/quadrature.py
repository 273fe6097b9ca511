"""Quadrature: the integral over weights as a sum over nodes."""

import math

import keras
from keras import ops

from bayesian_layers import backend, keras_contact
from bayesian_layers.distributions.expectation import (
    gauss_hermite,
    tensor_grid,
    unscented,
)
from bayesian_layers.distributions.over_nodes import OverNodes
from bayesian_layers.layers.weights.moments import check_posterior, keras_spec
from bayesian_layers.layers.weights.twins import Twin, twin
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import (
    call_with,
    without_bias_and_activation,
)

# More nodes than this, and draws are the better estimate.
MOST_NODES = 4096
RULES = ("grid", "unscented")


class QuadratureVariable(RandomVariable):
    """A random variable over the nodes of a rule; its value is the weighted mean."""

    def expect(self, function):
        """Returns E function(f), the weighted sum over the nodes.

        Args:
            function: From values of f, with the nodes on a new first axis, to anything
                with that axis first.
        """
        return self.distribution.expect(function)


backend.register_pytree(
    QuadratureVariable,
    lambda variable: ((variable.value, variable.distribution), variable._name),
    lambda name, leaves: QuadratureVariable.of(leaves[1], leaves[0], (), name),
)


class Quadrature(Twin, RandomWeights):
    """Integrates over the weights of a layer by a deterministic rule.

    E g(f(x, w)) = sum_i weight_i g(f(x, mean + stddev * node_i)), with nodes over all d
    random numbers of the layer. `rule="grid"` is the Gauss-Hermite grid of
    `num_nodes ** d` nodes, exact for polynomials of degree `2 * num_nodes - 1` in each
    weight; more than 4096 of them are refused. `rule="unscented"` has `2 * d` nodes,
    and is exact up to degree three in all weights together: enough for mean and
    variance of what is linear in the weights, and so for the bound of a Gaussian
    likelihood.

    It returns a random variable over the nodes, without noise. Its value is the
    weighted mean, which is what other layers see; `y.expect(function)` is the mean of a
    function. Put it last, with a likelihood after it: `bl.layers.GaussianLikelihood`,
    or another, and `bl.losses.NegativeLogLikelihood` then take the weighted sum over
    nodes of log p(y | f). That of the mean, log p(y | E f), would tell the scale of the
    weights nothing of the data. Where something asks for weights (`bl.weights`,
    `bl.predict`, `bl.tape`) the layer is the one of Keras at one draw of them.

    Reference: Tran et al. (2019), Bayesian layers, section 2, which names it.
    """

    is_estimator = True
    own_arguments = {
        "num_nodes": (
            3,
            "The number of Gauss-Hermite nodes for each random number, with "
            '`rule="grid"`. Defaults to 3.',
        ),
        "rule": (
            "grid",
            '`"grid"` (the default), with `num_nodes ** d` nodes for d random numbers, '
            'or `"unscented"`, with `2 * d`.',
        ),
    }

    def __init__(self, *args, num_nodes=3, rule="grid", **kwargs):
        super().__init__(*args, **kwargs)
        if rule not in RULES:
            raise ValueError(
                f"`rule` should be one of {RULES}. Received: rule={rule!r}"
            )
        gauss_hermite(num_nodes)
        self.num_nodes = num_nodes
        self.rule = rule

    def _check_posterior(self, weight):
        check_posterior(self, weight)

    def build(self, input_shape):
        """Builds the layer."""
        super().build(input_shape)
        size = self.num_random
        if self.rule == "grid" and self.num_nodes**size > MOST_NODES:
            raise ValueError(
                f"Layer {self.name!r} has {size} random numbers: a grid would take "
                f"{self.num_nodes}**{size} = {float(self.num_nodes) ** size:.2g} runs "
                f"of the layer for each call, and {MOST_NODES} are the most. Give "
                f'`rule="unscented"` for {2 * size} runs, or fewer `units`, inputs or '
                "`num_nodes`; or draw, by DenseReparameterization."
            )

    @property
    def num_random(self):
        """The number d of random numbers of the layer."""
        return sum(
            math.prod(weight.location.shape) for weight in self.random_weights.values()
        )

    def nodes(self):
        """Returns the rule: nodes `[n, d]` and log-weights `[n]`, NumPy arrays."""
        if self.rule == "grid":
            return tensor_grid(self.num_nodes, self.num_random)
        return unscented(self.num_random)

    def compute_output_spec(self, inputs, *args, **kwargs):
        """Returns the shape of the outputs."""
        return keras_spec(self, inputs)

    def estimate(self, call, inputs, **kwargs):
        """Returns a random variable over the nodes."""
        if any(weight.is_wanted() for weight in self.random_weights.values()):
            return super().estimate(call, inputs, **kwargs)
        points, log_weights = self.nodes()
        values, start = {}, 0
        for name, weight in self.random_weights.items():
            posterior = weight.posterior
            shape = tuple(weight.location.shape)
            z = points[:, start : start + math.prod(shape)]
            start += math.prod(shape)
            z = ops.convert_to_tensor(z.reshape(-1, *shape), posterior.dtype)
            values[name] = posterior.loc + posterior.scale * z
        outputs = self._at_nodes(call, inputs, len(points), values)
        outputs = ops.cast(ops.moveaxis(outputs, -2, -1), "float32")
        distribution = OverNodes.of_values(log_weights, outputs)
        return QuadratureVariable.of(distribution, distribution.mean(), (), self.name)

    def _at_nodes(self, call, inputs, count, values):
        """The outputs `[..., n, units]` at n nodes: one product with n kernels."""
        kernel = values.get("kernel")
        if kernel is None:
            kernel = ops.convert_to_tensor(self.kernel)[None]
            kernel = ops.repeat(kernel, count, axis=0)
        bias = values.get("bias")
        if bias is None and self.bias is not None:
            bias = ops.convert_to_tensor(self.bias)[None]
        rows, units = ops.shape(kernel)[1:]
        wide = ops.reshape(ops.moveaxis(kernel, 0, 1), (rows, count * units))
        attribute = "_kernel" if "_kernel" in vars(self) else "kernel"
        linear = without_bias_and_activation(self)
        linear[attribute] = ops.cast(wide, inputs.dtype)
        if keras_contact.has_lora(self):
            linear["lora_enabled"] = False  # The posterior has it in its mean.
        outputs = call_with(self, call, (inputs,), {}, linear)
        outputs = ops.reshape(outputs, (*ops.shape(outputs)[:-1], count, units))
        if bias is not None:
            outputs = outputs + ops.cast(bias, outputs.dtype)
        return outputs if self.activation is None else self.activation(outputs)

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        own = {"num_nodes": self.num_nodes, "rule": self.rule}
        return {**super().get_config(), **own}


@twin
class DenseQuadrature(Quadrature, keras.layers.Dense):
    """`keras.layers.Dense` whose weights are integrated out by a rule, without draws.

    `[..., inputs] -> [..., units]`, for few weights: see `bl.layers.Quadrature`.

    Example:
    >>> layer = bl.layers.DenseQuadrature(1, num_nodes=5, seed=1)
    >>> y = layer(np.ones((8, 2)))
    >>> ops.shape(y), ops.shape(y.expect(lambda f: f**2))
    ((8, 1), (8, 1))
    >>> head = bl.layers.GaussianLikelihood()
    >>> ops.shape(head(y).expected_log_prob(np.ones((8, 1))))
    (8, 1)
    """
