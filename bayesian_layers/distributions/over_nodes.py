"""A distribution over the nodes of a quadrature rule."""

from keras import ops

from bayesian_layers.distributions.categorical import Categorical
from bayesian_layers.distributions.compound import with_parameter
from bayesian_layers.distributions.deterministic import Deterministic
from bayesian_layers.distributions.distribution import register
from bayesian_layers.distributions.mixture_same_family import MixtureSameFamily


@register
class OverNodes(MixtureSameFamily):
    """A mixture that stands for an integral: one component for each node of a rule.

    p(y) = sum_i w_i p(y | f_i), with the values f_i of a function at the nodes and
    their weights w_i. `expected_log_prob(y)` = sum_i w_i log p(y | f_i) is the data
    term of an evidence bound.

    Args:
        mixture_distribution: A `Categorical` with the weights.
        components_distribution: Distributions with the nodes on the last batch axis;
            `Deterministic` for values of a function.

    Example:
    >>> nodes = bl.distributions.over_nodes.OverNodes.of_values(
    ...     np.log([0.5, 0.5]), ops.convert_to_tensor([[0.0, 2.0]])
    ... )
    >>> float(nodes.mean()[0]), float(nodes.expect(lambda f: f**3)[0])
    (1.0, 4.0)
    """

    @classmethod
    def of_values(cls, log_weights, values):
        """Makes one of values `[..., n]` at n nodes, with their log-weights."""
        logits = ops.convert_to_tensor(log_weights, values.dtype)
        weights = Categorical.rebuild(
            {"logits": logits, "probs": None, "dtype": "int32"}
        )
        return cls.rebuild(
            {
                "mixture_distribution": weights,
                "components_distribution": Deterministic.rebuild({"loc": values}),
            }
        )

    def expect(self, function):
        """Returns E function(f), the weighted sum over the nodes.

        Args:
            function: From values of f, with the nodes on a new first axis, to anything
                with that axis first.
        """
        values = ops.moveaxis(self.components_distribution.mean(), -1, 0)
        results = ops.convert_to_tensor(function(values))
        weights = ops.cast(self.mixture_distribution.probs, results.dtype)
        weights = ops.reshape(weights, (-1, *[1] * (len(results.shape) - 1)))
        return ops.sum(weights * results, axis=0)

    def observed(self, conditional, parameter, link):
        """Returns the distribution of what is observed of values of a function.

        Args:
            conditional: The distribution of y given f, with any numbers for
                `parameter`.
            parameter: The name of the parameter of it that is link(f).
            link: The map from f to that parameter, or `None`.
        """
        ranks = {name: c.event_rank for name, c in conditional.parameters.items()}
        values = self.components_distribution.mean()
        values = ops.moveaxis(values, -1, -1 - ranks[parameter])
        # The nodes are the last batch axis, along which the other parameters are equal.
        others = conditional.rebuild({**conditional._arguments, parameter: None})
        others = others._map_named(
            lambda name, value: ops.expand_dims(value, -1 - ranks[name])
        )
        components = with_parameter(others, parameter, link, values)
        return self.rebuild({**self._arguments, "components_distribution": components})

    def expected_log_prob(self, value):
        """The mean over the nodes of the log-density given each of them."""
        value = self._expand(self._standardize_value(value))
        log_probs = self.components_distribution.log_prob(value)
        weights = ops.cast(self.mixture_distribution.probs, log_probs.dtype)
        return ops.sum(weights * log_probs, axis=-1)
