"""Random factors of the inputs: what dropout is a distribution over."""

from bayesian_layers.random_weights.random_weight import RandomWeight


class Mask(RandomWeight):
    """Random factors of features, which handlers see as a random weight.

    Dropout of the inputs of a layer is a distribution over its kernel: a dropped input
    is a row of zeros. Where something asks for the factors (`bl.weights`, `bl.predict`,
    `bl.tape`) there is one draw of them for all examples, as of any other weight.
    Elsewhere each example has its own, drawn by the layer.

    Args:
        layer: The layer.
        make_distribution: A function that returns the distribution of the factors.
        variables: The variables that it depends on, by name.
        regularizer: The divergence: a function of the random variable, or `None`.
    """

    def __init__(self, layer, make_distribution, variables=None, regularizer=None):
        super().__init__(layer, "mask", None, variables or {}, {}, {}, regularizer)
        self._make_distribution = make_distribution

    @property
    def posterior(self):
        """The distribution of the factors, as it is now."""
        return self._make_distribution()

    @property
    def location(self):
        """There is no variable that a layer reads the factors from."""
        return None
