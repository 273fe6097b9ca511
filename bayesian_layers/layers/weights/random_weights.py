"""Layers whose weights are read as random variables."""

import functools

import keras
from keras import ops

from bayesian_layers import initializers
from bayesian_layers.distributions import noise
from bayesian_layers.layers.weights.calls import MarksCalls
from bayesian_layers.layers.weights.checkpoint import turn_to_deterministic_entry
from bayesian_layers.layers.weights.defaults import (
    RandomDefaults,
    keras_counterpart,
)
from bayesian_layers.layers.weights.random_weight import RandomWeight
from bayesian_layers.layers.weights.reading import attribute_of, reading
from bayesian_layers.layers.weights.sharding import take_layout
from bayesian_layers.layers.weights.training_checks import TrainingChecks
from bayesian_layers.regularizers import KLDivergence


class RandomWeights(MarksCalls, RandomDefaults):
    """Base of the estimators: owns the distributions, draws from them, saves them.

    It stands before a Keras layer in the bases of a class, and leaves that layer's
    `build` and `call` as they are. `add_weight` makes a weight random if its
    initializer is a distribution; when the layer is called, the attribute that Keras
    reads the weight from is substituted by a draw. An estimator decides what is
    substituted: it writes `call`. One that cannot use every distribution for the
    `kernels` states those it can, `posteriors`, and the `requirement` in words.
    """

    kernels = ("kernel",)
    posteriors = None
    requirement = ""

    def __init__(self, *args, **kwargs):
        arguments = self._resolve(args, kwargs)
        seed, kl_scale = arguments["seed"], arguments.pop("kl_scale")
        if "seed" not in self._keras_defaults:
            del arguments["seed"]
        super().__init__(**arguments)
        self.seed = seed
        # A weak reference to the composite layer that this one is a part of, if any.
        self.owner = None
        # On torch Keras adds a counter to the seed: those of two layers with the seeds
        # 1 and 2 would give the same noise, one draw apart, were they not spread out.
        (spread,) = noise.split(seed, 1)
        self.draw_seed_generator = keras.random.SeedGenerator(spread)
        self.random_weights = {}
        self._keras_names = set()
        # `None` until somebody has thought of it: then the KL counts in full.
        self._given_kl_scale = None if kl_scale is None else float(kl_scale)
        self._kl_scale = None
        self._checks = TrainingChecks(self)

    # Making weights.

    def add_weight(
        self, shape=None, initializer=None, *, name=None, regularizer=None, **kwargs
    ):
        """Adds a weight: a random one if the initializer is a distribution."""
        self._keras_names.add(name)
        dtype = kwargs.get("dtype") or self.variable_dtype
        posterior = initializers.as_posterior(initializer, shape, dtype)
        if posterior is not None:
            weight = self._add_random(name, shape, posterior, regularizer, **kwargs)
            self.check_posterior(name, weight)
            self.random_weights[name] = weight
            return weight.location
        # A prior says nothing of a weight that is known.
        regularizer = None if isinstance(regularizer, KLDivergence) else regularizer
        return super().add_weight(
            shape, initializer, name=name, regularizer=regularizer, **kwargs
        )

    def _add_random(
        self,
        name,
        shape,
        posterior,
        regularizer,
        prefix=None,
        constraint=None,
        **kwargs,
    ):
        """Makes the variables of a distribution over a weight.

        The location has the name of the weight, the others are `<prefix>_<parameter>`.
        A parameter that is random itself has its own variables made in the same way.
        """
        prefix = prefix or name
        kwargs.update(
            dtype=_at_least_float32(kwargs.get("dtype") or self.variable_dtype),
            trainable=posterior.trainable,
            autocast=False,
        )
        variables, readers, shapes = {}, {}, posterior.shapes(shape)
        nested = []
        for key, parameter in posterior.parameters().items():
            is_location = key == posterior.location
            variables[key], readers[key] = self._add_parameter(
                name if is_location else f"{prefix}_{key}",
                f"{prefix}_{key}",
                shapes[key],
                parameter,
                nested,
                constraint=constraint if is_location else None,
                **kwargs,
            )
            take_layout(variables[key], variables[posterior.location])
        scope = variables[posterior.location].path.rpartition("/")[0]
        weight = RandomWeight(
            f"{scope}/{prefix}",
            posterior,
            variables,
            readers,
            self.draw_seed_generator,
            nested,
        )
        if regularizer is not None:
            self._attach(regularizer, weight, prefix)
        return weight

    def _add_parameter(self, name, prefix, shape, parameter, nested, **kwargs):
        """Makes the variable of a parameter, and the function that reads it.

        If it is random itself, its `RandomWeight` is added to `nested`.
        """
        dtype = kwargs["dtype"]
        posterior = initializers.as_posterior(parameter.initializer, shape, dtype)
        if posterior is not None:
            inner = self._add_random(
                name,
                shape,
                posterior,
                parameter.regularizer,
                prefix=prefix,
                **kwargs,
            )
            nested.append(inner)
            variable, read = inner.location, inner.draw
        else:
            variable = super().add_weight(
                shape,
                parameter.initializer,
                name=name,
                regularizer=parameter.regularizer,
                **kwargs,
            )
            read = functools.partial(ops.convert_to_tensor, variable)
        constraint = parameter.constraint
        return variable, read if constraint is None else lambda: constraint(read())

    def _attach(self, regularizer, weight, prefix):
        """Hangs the penalty on the variable that trains whenever the weight does.

        That is the last one, a scale where there is one: the location is frozen by
        LoRA, while the scale goes on training.
        """
        if hasattr(regularizer, "bind"):
            regularizer = regularizer.bind(
                lambda name, **kwargs: super(RandomWeights, self).add_weight(
                    name=f"{prefix}_{name}", dtype="float32", autocast=False, **kwargs
                )
            )
        weight.regularizer = regularizer
        scale = self._kl_scale_variable()
        *_, last = weight.variables.values()
        last.regularizer = _scaled_divergence(
            weight, scale, last.regularizer, self._checks
        )

    def check_posterior(self, name, weight):
        """Raises `ValueError` if the estimator cannot use a distribution."""
        if self.posteriors is None or name not in self.kernels:
            return
        if isinstance(weight.distribution, self.posteriors):
            return
        raise ValueError(
            f"{type(self).__name__} needs a kernel with {self.requirement}. Received: "
            f"a posterior of {type(weight.distribution).__name__} for {name!r}. "
            f"Use {keras_counterpart(type(self)).__name__}Reparameterization instead."
        )

    # The scale of the divergence.

    def _kl_scale_variable(self):
        if self._kl_scale is None:
            self._kl_scale = super().add_weight(
                name="kl_scale",
                shape=(),
                initializer=keras.initializers.Constant(self.kl_scale),
                dtype="float32",
                trainable=False,
                autocast=False,
            )
        return self._kl_scale

    @property
    def kl_scale(self):
        """The number that multiplies the divergence in `losses`; see `bl.scale_kl`."""
        if self._kl_scale is None:
            return 1.0 if self._given_kl_scale is None else self._given_kl_scale
        return float(ops.convert_to_numpy(self._kl_scale))

    @kl_scale.setter
    def kl_scale(self, value):
        self._given_kl_scale = float(value)
        if self._kl_scale is not None:
            self._kl_scale.assign(self._given_kl_scale)

    @property
    def kl_scale_is_given(self):
        """Whether the scale was set, by argument or by `bl.scale_kl`."""
        return self._given_kl_scale is not None

    # Calling.

    def __call__(self, *args, **kwargs):
        self._checks.of_call()
        return super().__call__(*args, **kwargs)

    def draw(self, seed=None):
        """Returns one draw of every random weight, by the attribute Keras reads."""
        self._refuse_time_distributed()
        return {
            attribute_of(self, weight): self.to_compute_dtype(weight.draw(seed=seed))
            for weight in self.random_weights.values()
        }

    def _refuse_time_distributed(self):
        """Raises `ValueError` if only `call` was called, of it or of its owner."""
        self.check_called()
        if self.owner is not None:
            self.owner().check_called()

    def to_compute_dtype(self, value):
        """Returns a draw in the dtype that the layer computes in."""
        return ops.cast(value, self.compute_dtype)

    def call_with(self, inputs, **values):
        """Keras' own `call`, with attributes of the layer read as `values`."""
        with reading(self, **values):
            return super().call(inputs)

    # Saving.

    def get_config(self):
        """Returns the config of the Keras layer, and `seed` and `kl_scale`."""
        kl_scale = self.kl_scale if self.kl_scale_is_given else None
        return {**super().get_config(), "seed": self.seed, "kl_scale": kl_scale}

    def save_own_variables(self, store):
        """Saves all variables: some Keras layers save only those they know."""
        keras.Layer.save_own_variables(self, store)

    def load_own_variables(self, store):
        """Loads all variables, or from a deterministic layer what that has."""
        turn_to_deterministic_entry(store, self)
        variables = self._trainable_variables + self._non_trainable_variables
        known = [v for v in variables if v.name in self._keras_names]
        if len(store.keys()) != len(known) or len(known) == len(variables):
            keras.Layer.load_own_variables(self, store)
            return
        for index, variable in enumerate(known):
            variable.assign(store[str(index)])


def _scaled_divergence(weight, scale, previous, checks):
    """The function that Keras calls for the penalty on a weight."""

    def penalty(variable):
        checks.of_penalty(variable)
        divergence = weight.divergence()
        scaled = ops.cast(scale, divergence.dtype) * divergence
        return scaled if previous is None else scaled + previous(variable)

    return penalty


def _at_least_float32(dtype):
    return "float32" if dtype in ("float16", "bfloat16") else dtype
