"""One random weight of one layer."""

import functools

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.handlers import block
from bayesian_layers.keras_contact import has_lora
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.regularizers import KLDivergence
from bayesian_layers.regularizers.kl_divergence import of_shape
from bayesian_layers.trace import (
    distribution_of,
    draw,
    drawn_when_read,
    is_tracing,
    is_wanted,
)


class RandomWeight:
    """A weight with a distribution over its values: `layer.random_weights["kernel"]`.

    It has the weight's `posterior`, its `prior`, its `kl()` and its `draw()`, and the
    `variables` behind the posterior, by the names of its parameters. The first of them,
    the `location`, is the Keras variable that the layer calls by the weight's name.

    Args:
        layer: The layer.
        name: The name of the weight.
        initializer: The `bl.initializers.Posterior` that made it.
        variables: The variables of the parameters by name, the location first.
        readers: For each parameter a function that returns its value, given the value
            of its variable.
        nested: The `RandomWeight`s of the parameters that are random themselves, by
            the parameter.
        regularizer: The penalty on the distribution: its KL from the prior, or `None`.
        prior_variables: The variables that belong to the regularizer.

    Example:
    >>> layer = bl.layers.DenseReparameterization(2)
    >>> layer.build((None, 9))
    >>> weight = layer.random_weights["kernel"]
    >>> type(weight.posterior).__name__, type(weight.prior).__name__
    ('Normal', 'Normal')
    >>> round(float(ops.convert_to_numpy(weight.posterior.stddev())[0, 0]), 4)
    0.0162
    >>> bool(weight.kl() > 6 * 2.52)
    True
    """

    def __init__(
        self,
        layer,
        name,
        initializer,
        variables,
        readers,
        nested,
        regularizer=None,
        prior_variables=(),
    ):
        self.layer = layer
        self.name = name
        self.initializer = initializer
        self.variables = variables
        self.nested = nested
        self.regularizer = regularizer
        self.prior_variables = prior_variables
        self._readers = readers

    @property
    def location(self):
        """The Keras variable that the layer calls by the weight's name."""
        return self.variables[self.initializer.location]

    @functools.cached_property
    def attribute(self):
        """The name of the attribute that the layer reads the weight from."""
        for name, value in vars(self.layer).items():
            if value is self.location:
                return name
        raise ValueError(
            f"The weight {self.name!r} is not an attribute of its layer "
            f"{self.layer.name!r}, and so cannot be read as a random variable. Assign "
            "what `add_weight` returns to an attribute of the layer."
        )

    @property
    def posterior(self):
        """The distribution, of the parameters as they are now."""
        return self.initializer.distribution(
            **{name: self._value(name) for name in self.variables}
        )

    def _value(self, parameter):
        if parameter in self.nested:
            value = self.nested[parameter].draw()
        elif parameter == self.initializer.location and has_lora(self.layer):
            value = keras_contact.read_with_lora(self.layer, self.attribute)
        else:
            value = self.variables[parameter]
        return self._readers[parameter](ops.convert_to_tensor(value))

    @property
    def prior(self):
        """The prior, or `None`: no penalty, or one that is no distribution's."""
        if not hasattr(self.regularizer, "prior_of"):
            return None
        with drawn_when_read():
            return self.regularizer.prior_of(RandomVariable(self.posterior))

    def proper_prior(self):
        """Returns the prior as a distribution of weights of the weight's shape.

        It is what the weight is drawn from in the role of a model, see `bl.role`.

        Raises:
            ValueError: If there is none.
        """
        prior = None
        if getattr(type(self.regularizer), "prior_of", None) is KLDivergence.prior_of:
            # It does not depend on the posterior, which may be random itself.
            prior = self.regularizer.prior
        elif hasattr(self.regularizer, "prior_of"):
            with block():
                prior = self.prior
        if prior is None:
            regularizer = self.regularizer
            given = None if regularizer is None else type(regularizer).__name__
            raise ValueError(
                f"The random weight {self.path!r} has no prior that is a distribution, "
                "so it has no part in a model. Give the layer a regularizer such as "
                f"`bl.regularizers.NormalKLDivergence()` for {self.name!r}. "
                f"Received: {given}"
            )
        dtype = keras.backend.standardize_dtype(self.location.dtype)
        return of_shape(prior, self.location.shape, dtype)

    def kl(self):
        """Returns KL(posterior || prior), a scalar; 0 without a prior."""
        if self.regularizer is None:
            return ops.zeros((), dtype=self.posterior.dtype)
        with drawn_when_read():
            weight = RandomVariable(self.posterior, seed=self.layer.draw_seed_generator)
            return ops.convert_to_tensor(self.regularizer(weight))

    def flatten(self):
        """Returns the weight, and those of its parameters that are random in turn."""
        nested = (weight.flatten() for weight in self.nested.values())
        return [self, *(weight for weights in nested for weight in weights)]

    def is_trainable(self):
        """Whether anything that the divergence depends on is trained."""
        depends_on = [*self.variables.values(), *self.prior_variables]
        depends_on += keras_contact.lora_variables(self.layer)
        for layer in [] if self.initializer is None else self.initializer.layers():
            depends_on += layer.trainable_variables
        return any(variable.trainable for variable in depends_on)

    def other_variables(self):
        """Returns the variables that are no location: of scales, say, and of priors."""
        locations = {id(weight.location) for weight in self.flatten()}
        variables = [*self.prior_variables]
        for weight in self.flatten():
            variables.extend(weight.variables.values())
        return [v for v in variables if id(v) not in locations]

    @property
    def path(self):
        """The name that handlers see, if the layer is called as it is called now."""
        return f"{keras_contact.called_path(self.layer)}/{self.name}"

    # Whether it exists only where something holds it (see `FunctionNoise`).
    only_held = False

    def is_wanted(self):
        """Whether a handler in force looks at the weight, or sets it."""
        return is_tracing() and is_wanted(self.path, self)

    def draw(self, posterior=None, seed=None):
        """Returns a draw, by way of the handlers in force."""
        if posterior is None:
            posterior = distribution_of(self)
        seed = self.layer.draw_seed_generator if seed is None else seed
        if not is_tracing():
            return draw.__wrapped__(posterior, seed=seed)
        return draw(posterior, name=self.path, seed=seed, source=self)

    def __repr__(self):
        prior = None if self.prior is None else type(self.prior).__name__
        return (
            f"<RandomWeight {self.layer.name}/{self.name} "
            f"shape={self.posterior.shape()} "
            f"posterior={type(self.posterior).__name__} prior={prior}>"
        )
