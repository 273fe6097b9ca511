"""Layers whose weights are read as random variables."""

import functools
import inspect
import warnings

import keras
from keras import ops

from bayesian_layers import initializers, keras_contact, regularizers, seeds
from bayesian_layers.random_weights.random_weight import RandomWeight
from bayesian_layers.random_weights.substitution import call_with
from bayesian_layers.random_weights.training_checks import TrainingChecks
from bayesian_layers.registry import snake_case
from bayesian_layers.regularizers import KLDivergence

_NOT_GIVEN = object()


class RandomWeights:
    """Gives any Keras layer random weights: stands before the layer in the bases.

    `add_weight` makes a weight random if its initializer is a distribution (a
    `bl.initializers.Posterior`, or its name): the Keras variable is the location of
    the posterior, the other parameters stand beside it, and the KL from the prior, the
    regularizer, is in `losses`, once, while anything that it depends on is trained.
    When the layer is called, its `call` reads a draw in place of the weight: one for
    each call, or what an estimator makes of it.

    Outside of a call `layer.kernel` is the location. The distribution, its prior and
    its KL are at `layer.random_weights["kernel"]`.

    An estimator is a subclass that decides how the layer is run: it overrides
    `estimate`, and may add weights of its own in `build`. With an estimator before it,
    every trainable weight of a layer but those in `known_weights` is random; its mean
    starts where the layer's own initializer says.

    Args:
        *args: The arguments of the layer.
        seed: Integer seed of the draws. Defaults to a random one.
        kl_scale: Number that multiplies the divergences in `losses`; see `bl.scale_kl`.
        **kwargs: The arguments of the layer.

    Example:
    >>> class Scale(bl.layers.RandomWeights, keras.Layer):
    ...     def build(self, input_shape):
    ...         shape = input_shape[-1:]
    ...         self.factor = self.add_weight(shape, "trainable_normal", name="factor")
    ...     def call(self, inputs):
    ...         return inputs * self.factor
    >>> layer = Scale()
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 3)
    >>> list(layer.random_weights), len(layer.losses)
    (['factor'], 1)
    """

    default_initializer = "trainable_normal_fan_in"
    default_regularizer = "normal_kl_divergence"
    known_weights = ("bias",)
    is_estimator = False
    keras_counterpart = None
    _is_substituted = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        bases = cls.__mro__
        if keras.Layer in bases[: bases.index(RandomWeights)]:
            raise TypeError(
                f"`{cls.__name__}` should name `bl.layers.RandomWeights`, or an "
                "estimator, before the Keras layer in its bases; behind it its weights "
                "would not be random. "
                f"Received: {[base.__name__ for base in cls.__bases__]}"
            )
        for base in bases:
            if "call" in vars(base):
                call = vars(base)["call"]
                if base is not keras.Layer and not hasattr(call, "estimated"):
                    cls.call = _estimated(call)
                return

    def __init__(self, *args, seed=None, kl_scale=None, **kwargs):
        # Past `__setattr__`: Keras would track the contents, and some layers build
        # themselves in their constructor.
        vars(self).update(
            random_weights={},
            _layer_weights=[],
            _kl_scale=None if kl_scale is None else float(kl_scale),
            _kl_scale_variable=None,
            _checks=TrainingChecks(self),
        )
        if "seed" in inspect.signature(super().__init__).parameters:
            kwargs["seed"] = seed  # Of dropout, say.
        super().__init__(*args, **kwargs)
        self.seed = seed
        self.draw_seed_generator = seeds.generator(seed)
        if keras_contact.is_quantized(self):
            raise ValueError(
                f"{type(self).__name__} cannot be quantized: its weights have "
                f"distributions. Received: dtype={self.dtype_policy.name!r}"
            )

    # Making weights.

    def add_weight(
        self,
        shape=None,
        initializer=None,
        *,
        name=None,
        regularizer=_NOT_GIVEN,
        **kwargs,
    ):
        """Adds a weight: a random one if the initializer is a distribution.

        Arguments as in `keras.Layer.add_weight`. A random weight for which no
        `regularizer` is given has the default prior of the layer; `regularizer=None`
        says that it is to have none.
        """
        shape = () if shape is None else tuple(shape)
        if keras_contact.is_lora(name):
            return super().add_weight(shape, initializer, name=name, **kwargs)
        if isinstance(initializer, str):
            initializer = initializers.get(initializer)
        if isinstance(regularizer, str):
            regularizer = regularizers.get(regularizer)
        dtype = kwargs.get("dtype") or self.variable_dtype
        posterior = initializers.as_posterior(initializer, shape, dtype)
        if posterior is None and self._is_random_by_default(name, dtype, kwargs):
            posterior = initializers.get(self.default_initializer)
            posterior = posterior.with_location(initializer or "glorot_uniform")
            if regularizer is None:
                regularizer = _NOT_GIVEN
        if posterior is None:
            return self._add_known(shape, initializer, name, regularizer, **kwargs)
        if regularizer is _NOT_GIVEN:
            regularizer = regularizers.get(self.default_regularizer)
        regularizers.check(regularizer, name)
        weight = self._add_random(name, shape, posterior, regularizer, **kwargs)
        self._check_posterior(weight)
        self.random_weights[name] = weight
        self._layer_weights.append(weight.location)
        self._add_kl_scale()
        return weight.location

    def _is_random_by_default(self, name, dtype, kwargs):
        """Whether an estimator is to make a weight of a user's layer random."""
        if not self.is_estimator or self.keras_counterpart is not None:
            return False
        if not kwargs.get("trainable", True):
            return False
        return keras.backend.is_float_dtype(dtype) and name not in self.known_weights

    def _add_known(self, shape, initializer, name, regularizer, **kwargs):
        if isinstance(regularizer, KLDivergence):
            warnings.warn(
                f"The weight {name!r} of {type(self).__name__} has a prior but no "
                f"distribution: `{type(initializer).__name__}` initializes one value. "
                "To start the mean of a distribution there, give "
                f"`bl.initializers.TrainableNormal({_identifier(initializer)})` as the "
                "initializer. If the weight is to be one value, say so with a "
                "regularizer of `None` beside the initializer.",
                stacklevel=3,
            )
            regularizer = None
        if regularizer is _NOT_GIVEN:
            regularizer = None
        variable = super().add_weight(
            shape,
            initializer,
            name=name,
            regularizer=regularizers.of_known_weight(regularizer, name),
            **kwargs,
        )
        self._layer_weights.append(variable)
        return variable

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
            trainable=posterior.trainable and kwargs.get("trainable", True),
            autocast=False,
        )
        posterior = posterior.bind(prefix, shape, functools.partial(setattr, self))
        variables, readers, nested = {}, {}, {}
        shapes = posterior.shapes(shape)
        for key, parameter in posterior.parameters().items():
            is_location = key == posterior.location
            readers[key] = parameter.constraint or (lambda value: value)
            variables[key] = self._add_parameter(
                name if is_location else f"{prefix}_{key}",
                key,
                f"{prefix}_{key}",
                shapes[key],
                parameter,
                nested,
                constraint=constraint if is_location else None,
                **kwargs,
            )
            keras_contact.take_layout(variables[key], variables[posterior.location])
        prior_variables = []
        if hasattr(regularizer, "bind"):
            regularizer = regularizer.bind(
                functools.partial(
                    self._add_prior_variable, prefix, tuple(shape), prior_variables
                )
            )
        return RandomWeight(
            self,
            prefix,
            posterior,
            variables,
            readers,
            nested,
            regularizer,
            prior_variables,
        )

    def _add_parameter(
        self, name, key, prefix, shape, parameter, nested, *, dtype, **kwargs
    ):
        """Makes the variable of a parameter.

        If it is random itself, its `RandomWeight` is added to `nested`.
        """
        posterior = initializers.as_posterior(parameter.initializer, shape, dtype)
        if posterior is None:
            return super().add_weight(
                shape,
                parameter.initializer,
                name=name,
                regularizer=parameter.regularizer,
                dtype=dtype,
                **kwargs,
            )
        regularizers.check(parameter.regularizer, prefix)
        nested[key] = self._add_random(
            name,
            shape,
            posterior,
            parameter.regularizer,
            prefix=prefix,
            dtype=dtype,
            **kwargs,
        )
        return nested[key].location

    def _add_prior_variable(
        self, prefix, weight_shape, variables, name, shape=None, **kwargs
    ):
        """Makes a variable of the prior; by default one of the weight's shape."""
        variables.append(
            super().add_weight(
                weight_shape if shape is None else shape,
                name=f"{prefix}_{name}",
                dtype="float32",
                autocast=False,
                **kwargs,
            )
        )
        return variables[-1]

    def _check_posterior(self, weight):
        """Raises `ValueError` if the estimator cannot use a distribution."""

    # The divergence.

    def _get_own_losses(self):
        losses = keras_contact.own_losses(self, RandomWeights)
        for weight in self.random_weights.values():
            for part in weight.flatten():
                if part.regularizer is not None and part.is_trainable():
                    kl = part.kl()
                    losses.append(ops.cast(self._kl_scale_variable, kl.dtype) * kl)
        return losses

    def _add_kl_scale(self):
        """Makes the variable behind `kl_scale`: compiled functions see its changes."""
        if self._kl_scale_variable is None:
            self._kl_scale_variable = super().add_weight(
                name="kl_scale",
                shape=(),
                initializer=keras.initializers.Constant(self.kl_scale),
                dtype="float32",
                trainable=False,
                autocast=False,
            )

    @property
    def kl_scale(self):
        """The number that multiplies the divergence in `losses`; see `bl.scale_kl`."""
        return 1.0 if self._kl_scale is None else self._kl_scale

    @kl_scale.setter
    def kl_scale(self, value):
        self._kl_scale = float(value)
        if self._kl_scale_variable is not None:
            self._kl_scale_variable.assign(self._kl_scale)

    # Calling.

    def estimate(self, call, *args, **kwargs):
        """Returns the outputs of the layer, whose own code is `call(layer, ...)`.

        Here: for one draw of its weights.
        """
        return call_with(self, call, args, kwargs, self.draw_weights())

    def draw_weights(self, seed=None, names=None):
        """Returns a draw of random weights, by the attributes that they are read from.

        Args:
            seed: As in `keras.random`. Defaults to the layer's own.
            names: The names of the weights. Defaults to all.
        """
        if keras_contact.in_time_distributed():
            raise ValueError(
                f"Layer {self.name!r} is in a `keras.layers.TimeDistributed`, which "
                "runs it anew for each step, and so would draw new weights for each. "
                "Give the layer inputs with a time axis instead, or reshape them so "
                "that time is part of the batch."
            )
        values = {
            weight.attribute: ops.cast(weight.draw(seed=seed), self.compute_dtype)
            for name, weight in self.random_weights.items()
            if names is None or name in names
        }
        if keras_contact.has_lora(self):
            values["lora_enabled"] = False  # The draw has it in its mean.
        return values

    # Saving.

    @property
    def weights(self):
        """The weights; the scale of the divergence belongs to training, not to them."""
        scale = self._kl_scale_variable
        return [variable for variable in super().weights if variable is not scale]

    def get_config(self):
        """Returns the config of the layer, and `seed` and `kl_scale`."""
        return {**super().get_config(), "seed": self.seed, "kl_scale": self._kl_scale}

    def _saved_variables(self):
        scale = self._kl_scale_variable
        return [v for v in keras_contact.own_variables(self) if v is not scale]

    def _known_variables(self):
        """What the layer without distributions would save."""
        known = {id(variable) for variable in self._layer_weights}
        return [v for v in self._saved_variables() if id(v) in known]

    def save_own_variables(self, store):
        """Saves all variables: some Keras layers save only those they know."""
        for index, variable in enumerate(self._saved_variables()):
            store[str(index)] = variable

    def load_own_variables(self, store):
        """Loads all variables, or from a deterministic layer what that has."""
        variables, known = self._saved_variables(), self._known_variables()
        if variables and not store.keys():
            raise ValueError(
                f"The file has no entry for layer {self.name!r}, a "
                f"{type(self).__name__}. If it is the file of a deterministic model of "
                "the same architecture, use "
                "`bl.load_deterministic_weights(model, filepath)`."
            )
        if len(store.keys()) == len(known) < len(variables):
            variables = known
        if len(store.keys()) != len(variables):
            raise ValueError(
                f"Layer {self.name!r} expected {len(variables)} variables. "
                f"Received: {len(store.keys())} in the file."
            )
        assign = self._assign_known if variables is known else _assign
        for index, variable in enumerate(variables):
            assign(variable, store[str(index)])

    def set_weights(self, weights):
        """Sets the weights; those of the deterministic layer are taken for means."""
        known = self._known_variables()
        if len(weights) == len(known) < len(self.weights):
            for variable, value in zip(known, weights, strict=True):
                self._assign_known(variable, value)
        else:
            super().set_weights(weights)

    def _assign_known(self, variable, value):
        """Gives a variable what a deterministic layer has for it."""
        variable.assign(value)


def _assign(variable, value):
    variable.assign(value)


def _estimated(call):
    """The `call` of a class: run as the estimator says, on a copy with draws."""

    @functools.wraps(call)
    def run(self, *args, **kwargs):
        if self._is_substituted or not self.random_weights:
            return call(self, *args, **kwargs)
        self._checks.of_call()
        return self.estimate(call, *args, **kwargs)

    run.estimated = True
    return run


def _at_least_float32(dtype):
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _identifier(initializer):
    """What to write for an initializer: its name, if it has one."""
    name = type(initializer).__name__
    known = isinstance(initializer, keras.initializers.Initializer)
    return repr(snake_case(name)) if known else "..."
