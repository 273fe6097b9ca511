"""One random weight of one layer."""

from keras import ops

from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.trace import draw


class WeightName(str):
    """The path of a random weight, which knows the weight.

    Paths need not be unique: a clone of a model has those of the original.
    """

    weight = None

    @classmethod
    def of(cls, path, weight):
        """Returns the name of a weight."""
        name = cls(path)
        name.weight = weight
        return name


class RandomWeight:
    """A weight with a distribution: where its parameters are, and how to draw it.

    Args:
        path: The name under which handlers know the weight, `<layer path>/kernel`.
        posterior: The `Posterior` that says what the parameters mean.
        variables: The variables of the parameters by name, the location first.
        readers: For each parameter a function that returns its value.
        seed: The seed generator of the layer.
        nested: The `RandomWeight`s of the parameters that are random themselves.
    """

    def __init__(self, path, posterior, variables, readers, seed, nested=()):
        self.path = WeightName.of(path, self)
        self.posterior = posterior
        self.variables = variables
        self.readers = readers
        self.seed = seed
        self.nested = nested
        self.regularizer = None
        self.attribute = None

    @property
    def location(self):
        """The Keras variable that the layer reads as its weight."""
        return self.variables[self.posterior.location]

    @property
    def distribution(self):
        """The distribution, of the parameters as they are now."""
        return self.posterior.distribution(
            **{name: read() for name, read in self.readers.items()}
        )

    def draw(self, distribution=None, seed=None):
        """Returns a draw, by way of the handlers in force."""
        if distribution is None:
            distribution = self.distribution
        return draw(distribution, name=self.path, seed=seed or self.seed)

    def divergence(self):
        """Returns the regularizer's penalty, a scalar, in float32 or better."""
        weight = RandomVariable(self.distribution, seed=self.seed)
        return ops.convert_to_tensor(self.regularizer(weight))

    def total_divergence(self):
        """Returns the sum of the penalties on the weight and on its parameters."""
        own = 0.0 if self.regularizer is None else self.divergence()
        return sum((weight.total_divergence() for weight in self.nested), own)
