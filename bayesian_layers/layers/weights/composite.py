"""Layers made of layers: recurrent layers of a cell, attention of projections."""

import weakref

from bayesian_layers.distributions import noise
from bayesian_layers.layers.weights.calls import MarksCalls
from bayesian_layers.layers.weights.defaults import RandomDefaults
from bayesian_layers.layers.weights.random_weights import RandomWeights


class Composite(MarksCalls, RandomDefaults):
    """Puts layers with random weights in the place of the parts Keras makes.

    A subclass states `parts`, from Keras' class to ours. When Keras assigns a part to
    an attribute, ours with the same arguments is stored instead; Keras' own `build`
    and `call` run unchanged, on it.
    """

    parts = {}

    def __init__(self, *args, **kwargs):
        arguments = self._resolve(args, kwargs)
        self.seed = arguments["seed"]
        self._given_kl_scale = arguments.pop("kl_scale")
        super().__init__(**arguments)

    def __setattr__(self, name, value):
        if type(value) in self.parts:
            value = self._random_part(value)
        super().__setattr__(name, value)

    def _random_part(self, part):
        config = part.get_config()
        objects = ("_initializer", "_regularizer", "_constraint")
        config.update(
            {key: getattr(part, key) for key in config if key.endswith(objects)}
        )
        # Parts need noise of their own: equal seeds would give them the same.
        count = len(self.random_parts()) + 1
        config.setdefault("seed", noise.split(self.seed, count)[-1])
        if hasattr(part, "implementation"):  # Not in the config of a cell.
            config["implementation"] = part.implementation
        config["kl_scale"] = self._given_kl_scale
        config["dtype"] = part.dtype_policy
        random = self.parts[type(part)](**config)
        random.owner = weakref.ref(self)
        return random

    def random_parts(self):
        """Returns the layers with random weights that the layer is made of."""
        layers = self._flatten_layers(include_self=False)
        return [layer for layer in layers if isinstance(layer, RandomWeights)]

    @property
    def kl_scale(self):
        """The number that multiplies the divergence in `losses`; see `bl.scale_kl`."""
        parts = self.random_parts()
        if parts:
            return parts[0].kl_scale
        return 1.0 if self._given_kl_scale is None else self._given_kl_scale

    @kl_scale.setter
    def kl_scale(self, value):
        self._given_kl_scale = float(value)
        for part in self.random_parts():
            part.kl_scale = value

    def get_config(self):
        """Returns the config of the Keras layer, and `seed` and `kl_scale`."""
        kl_scale = None if self._given_kl_scale is None else self.kl_scale
        return {**super().get_config(), "seed": self.seed, "kl_scale": kl_scale}
