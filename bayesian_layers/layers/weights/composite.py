"""Layers made of layers: recurrent layers of a cell, attention of projections."""

import inspect

import keras

from bayesian_layers import keras_contact, seeds
from bayesian_layers.layers.weights.twins import Twin, has_twin, twin_of
from bayesian_layers.random_weights import RandomWeights


class Composite(Twin):
    """Puts layers with random weights in the place of the parts Keras makes.

    A subclass states its `estimator`. When Keras assigns a part to an attribute, the
    twin of it with the same arguments is stored instead; Keras' own `build` and `call`
    run unchanged, on it.
    """

    default_initializer = RandomWeights.default_initializer
    default_regularizer = RandomWeights.default_regularizer
    known_weights = RandomWeights.known_weights

    def __init__(self, *, seed=None, kl_scale=None, **arguments):
        self.seed = seed
        self._kl_scale = None if kl_scale is None else float(kl_scale)
        if "seed" in inspect.signature(super().__init__).parameters:
            arguments["seed"] = seed
        super().__init__(**arguments)

    def __setattr__(self, name, value):
        if has_twin(self.estimator, type(value)):
            value = self._random_part(value)
        super().__setattr__(name, value)
        if name == "built" and value and not self._random_parts():
            raise RuntimeError(
                f"keras {keras.__version__} makes {self.keras_counterpart.__name__} of "
                "parts that bayesian_layers does not find: none of its weights would "
                "be random."
            )

    def _random_part(self, part):
        config = part.get_config()
        objects = ("_initializer", "_regularizer", "_constraint")
        config.update(
            {key: getattr(part, key) for key in config if key.endswith(objects)}
        )
        # Parts need noise of their own: equal seeds would give them the same.
        count = len(self._random_parts()) + 1
        config.setdefault("seed", seeds.split(self.seed, count)[-1])
        if hasattr(part, "implementation"):  # Not in the config of a cell.
            config["implementation"] = part.implementation
        config["kl_scale"] = self._kl_scale
        config["dtype"] = part.dtype_policy
        return twin_of(self.estimator, type(part))(**config)

    def _random_parts(self):
        layers = keras_contact.flatten_layers(self)
        return [layer for layer in layers if isinstance(layer, RandomWeights)]

    @property
    def kl_scale(self):
        """The number that multiplies the divergence in `losses`; see `bl.scale_kl`."""
        return 1.0 if self._kl_scale is None else self._kl_scale

    @kl_scale.setter
    def kl_scale(self, value):
        self._kl_scale = float(value)
        for part in self._random_parts():
            part.kl_scale = value

    def get_config(self):
        """Returns the config of the Keras layer, and `seed` and `kl_scale`."""
        return {**super().get_config(), "seed": self.seed, "kl_scale": self._kl_scale}
