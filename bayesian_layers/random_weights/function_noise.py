"""The noise behind a random function."""

from bayesian_layers.random_weights.random_weight import RandomWeight


class FunctionNoise(RandomWeight):
    """Noise that turns a layer with a distribution over functions into one function.

    A Gaussian process has no weights whose draw would be a function: what it returns
    is the distribution of the function at some inputs. Where `bl.weights` or
    `bl.predict` hold the layer, it draws this noise, once, like a random weight, and
    makes a function of it. Nowhere else is it drawn, and `bl.tape` does not ask for it.

    Args:
        layer: The layer.
        name: The name of the noise.
        make_distribution: A function that returns its distribution.
    """

    only_held = True

    def __init__(self, layer, name, make_distribution):
        super().__init__(layer, name, None, {}, {}, {})
        self._make_distribution = make_distribution

    @property
    def posterior(self):
        """The distribution of the noise, which nothing changes."""
        return self._make_distribution()

    @property
    def prior(self):
        """The same distribution: data do not tell of the noise."""
        return self.posterior

    def proper_prior(self):
        """The same distribution, in every role."""
        return self.posterior

    @property
    def location(self):
        """There is no variable."""
        return None

    def other_variables(self):
        """There are none."""
        return []
