"""Outputs with mixtures of distributions."""

import keras
from keras import ops

from bayesian_layers import distributions
from bayesian_layers.distributions.transforms import Identity
from bayesian_layers.layers.outputs.family_layer import FamilyLayer
from bayesian_layers.layers.outputs.numbers import Logistic, Normal
from bayesian_layers.layers.outputs.parameters import implements
from bayesian_layers.layers.register import register


class BaseMixture(FamilyLayer):
    """Base of mixtures: of `num_components` distributions as `component` makes them.

    Of families over numbers each output is a mixture of its own, with logits
    `[..., n, k]`; of families over vectors the whole vector is, with logits `[..., k]`.
    """

    def __init__(self, component, units=None, num_components=5, **kwargs):
        if not (isinstance(num_components, int) and num_components > 0):
            raise ValueError(
                "`num_components` should be a positive integer. "
                f"Received: num_components={num_components}"
            )
        self.num_components = num_components
        # It makes distributions and is no layer of the model: not to be tracked.
        vars(self)["_component"] = component
        super().__init__(units, **kwargs)

    @property
    def facts(self):
        """Those of the component, of which a mixture has a mean, say, but no mode."""
        facts = self._component.facts
        mixture = distributions.MixtureSameFamily
        conversions = tuple(
            name
            for name in facts.conversions
            if name == "sample" or implements(mixture, f"_{name}")
        )
        return facts._replace(conversions=conversions)

    @property
    def calm(self):
        """Those of the component."""
        return tuple(f"component_{name}" for name in self._component.calm)

    def map_of(self, name):
        """Returns the map of a parameter of the component; logits are real."""
        component = name.removeprefix("component_")
        return self._component.map_of(component) if component != name else Identity()

    def sizes(self, count):
        """Returns the numbers of columns."""
        component = self._component
        choices = 1 if component.facts.is_vector else count
        sizes = {"logits": choices}
        # Those of a component may be called `logits` too.
        for name, size in component.sizes(count).items():
            sizes[f"component_{name}"] = size
        return {name: size * self.num_components for name, size in sizes.items()}

    def from_parameters(self, logits, **values):
        """Returns the mixture."""
        values = {
            name.removeprefix("component_"): self._split(value)
            for name, value in values.items()
        }
        if not self._component.facts.is_vector:
            logits = self._split(logits)
        return distributions.MixtureSameFamily(
            distributions.Categorical(logits),
            self._component.from_parameters(**values),
        )

    def _split(self, value):
        """`[..., k * n]` as `[..., k, n]`, or as `[..., n, k]` for single outputs."""
        *batch, size = ops.shape(value)
        count = self.num_components
        shape = (count, -1) if self._component.facts.is_vector else (-1, count)
        if isinstance(size, int):
            shape = tuple(size // count if s == -1 else s for s in shape)
        return ops.reshape(value, (*batch, *shape))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "num_components": self.num_components}


@register
class Mixture(BaseMixture):
    """An output with a mixture of any of the output layers' distributions.

    p(y) = sum_i softmax(logits(x))_i p_i(y)

    `[..., size] -> [..., n]`: first the logits of the k components, then each parameter
    of the component's layer for all components. Of numbers, each output is a mixture
    of its own: all of these are n blocks of k. Of vectors there is one choice for the
    vector: k logits, and k blocks of each parameter.

    Args:
        component: An output layer, without `units`: what is mixed.
        units: The number n of outputs, or `None`, as in `bl.layers.Normal`.
        num_components: The number k of components.
        **kwargs: As in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> layer = bl.layers.Mixture(bl.layers.Gamma(), units=2, num_components=3)
    >>> ops.shape(layer(np.ones((8, 4))))
    (8, 2)
    """

    def __init__(self, component, units=None, num_components=5, **kwargs):
        if not isinstance(component, FamilyLayer) or isinstance(component, BaseMixture):
            raise ValueError(
                "`component` should be an output layer such as `bl.layers.Normal()`, "
                f"and no mixture. Received: {component!r}"
            )
        if component.units is not None or component.homoscedastic:
            raise ValueError(
                "`component` should have neither `units`, which belong to the mixture, "
                f"nor be homoscedastic. Received: units={component.units}, "
                f"homoscedastic={component.homoscedastic}"
            )
        if component.prior is not None or component.convert != "sample":
            raise ValueError(
                "`prior` and `convert` are arguments of the mixture, not of its "
                f"`component`. Received: a component with prior={component.prior}, "
                f"convert={component.convert!r}"
            )
        super().__init__(component, units, num_components, **kwargs)

    def get_config(self):
        """Returns the constructor's arguments."""
        component = keras.saving.serialize_keras_object(self._component)
        return {**super().get_config(), "component": component}

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        component = keras.saving.deserialize_keras_object(config["component"])
        return super().from_config({**config, "component": component})


@register
class MixtureNormal(BaseMixture):
    """An output with a mixture of normal distributions: a mixture density network.

    `[..., 3 * k * n] -> [..., n]`: the logits, locations and scales, each n blocks of
    k = num_components. Arguments as in `bl.layers.Normal`, but for `homoscedastic`.

    Args:
        units: The number n of outputs, or `None`.
        num_components: The number k of components.
        **kwargs: As in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.MixtureNormal(2, num_components=3)(np.ones((8, 4))))
    (8, 2)

    Reference: Bishop (1994), Mixture density networks.
    """

    def __init__(self, units=None, num_components=5, **kwargs):
        super().__init__(Normal(), units, num_components, **kwargs)


@register
class MixtureLogistic(BaseMixture):
    """An output with a mixture of logistic distributions.

    `[..., 3 * k * n] -> [..., n]`: the logits, locations and scales, each n blocks of
    k = num_components. With `bl.layers.Discretize` after it, it is the likelihood of
    pixels of PixelCNN++. Arguments as in `bl.layers.Normal`, but for `homoscedastic`.

    Args:
        units: The number n of outputs, or `None`.
        num_components: The number k of components.
        **kwargs: As in `bl.layers.Normal`, but for `homoscedastic`.

    Example:
    >>> ops.shape(bl.layers.MixtureLogistic(2, num_components=3)(np.ones((8, 4))))
    (8, 2)

    Reference: Salimans et al. (2017), PixelCNN++.
    """

    def __init__(self, units=None, num_components=5, **kwargs):
        super().__init__(Logistic(), units, num_components, **kwargs)
