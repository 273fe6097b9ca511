"""Twins of Keras layers: their constructors, with other defaults, and their table."""

import inspect
import re
import textwrap

from bayesian_layers import initializers, keras_contact, regularizers
from bayesian_layers.initializers import Posterior
from bayesian_layers.layers.register import register

# (estimator, class of Keras) -> class of ours
_twins = {}

_OWN = {
    "seed": "Integer seed of the draws. Defaults to a random one.",
    "kl_scale": "Number that multiplies the KL in `losses`; see `bl.scale_kl`. "
    "Defaults to 1.",
}


def has_twin(estimator, keras_class):
    """Whether there is a class with an estimator for a class of Keras."""
    return (estimator, keras_class) in _twins


def twin_of(estimator, keras_class):
    """Returns the class with an estimator for the weights of a class of Keras.

    Args:
        estimator: An estimator, such as `bl.layers.Flipout`.
        keras_class: A class such as `keras.layers.Dense`.

    Raises:
        ValueError: If there is none.

    Example:
    >>> bl.layers.twin_of(bl.layers.Flipout, keras.layers.Dense).__name__
    'DenseFlipout'
    """
    if not has_twin(estimator, keras_class):
        known = sorted(k.__name__ for e, k in _twins if e is estimator)
        raise ValueError(
            f"There is no {estimator.__name__} of {keras_class.__name__}. "
            f"There is one of: {known}"
        )
    return _twins[estimator, keras_class]


def twin(cls):
    """Decorates the twin of a Keras layer: a class `(estimator, Keras class)`.

    The constructor takes the arguments of the Keras layer, of which every
    `*_initializer` but those of the `known_weights` defaults to `default_initializer`
    and its `*_regularizer` to `default_regularizer`, and by keyword the
    `own_arguments` of the estimator, `seed` and `kl_scale`. The docstring is completed
    by the arguments. The class is registered for Keras' serialization, and found by
    `twin_of`.
    """
    counterpart = next(filter(keras_contact.is_of_keras, cls.__mro__))
    parameters = inspect.signature(counterpart).parameters
    signature = _signature(cls, parameters)

    def __init__(self, *args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        arguments = _resolve(cls, bound, parameters)
        super(cls, self).__init__(**cls._standardize_arguments(arguments))

    cls.__init__ = __init__
    cls.__signature__ = signature
    cls.keras_counterpart = counterpart
    cls.__doc__ = _completed(cls, counterpart)
    estimator = cls.estimator or next(b for b in cls.__mro__ if _is_estimator(b))
    cls.estimator = estimator
    _twins[estimator, counterpart] = cls
    return register(cls)


class Twin:
    """What classes under `twin` have.

    An estimator with arguments of its own states `own_arguments`: by name, the default
    and what the documentation says of it.
    """

    estimator = None
    keras_counterpart = None
    own_arguments = {}

    @classmethod
    def _standardize_arguments(cls, arguments):
        """Returns the arguments of the constructor, refusing those that cannot be."""
        return arguments


def _is_estimator(base):
    return vars(base).get("is_estimator", False)


def random_argument(cls, name):
    """What an argument is of a random weight: `"initializer"`, say, or `None`."""
    weight, _, kind = name.rpartition("_")
    if weight in (*cls.known_weights, "activity", ""):
        return None
    return kind if kind in ("initializer", "regularizer") else None


def _signature(cls, parameters):
    defaults = {
        "initializer": cls.default_initializer,
        "regularizer": cls.default_regularizer,
    }
    changed = []
    for parameter in parameters.values():
        kind = random_argument(cls, parameter.name)
        changed.append(
            parameter if kind is None else parameter.replace(default=defaults[kind])
        )
    has_kwargs = changed[-1].kind is inspect.Parameter.VAR_KEYWORD
    position = len(changed) - has_kwargs
    own = {**cls.own_arguments, **{name: (None, text) for name, text in _OWN.items()}}
    changed[position:position] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, (default, _) in own.items()
        if name not in parameters
    ]
    return inspect.Signature(changed)


def _resolve(cls, bound, parameters):
    """The arguments by name, with our names made into objects."""
    given = set(bound.arguments)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    others = arguments.pop("kwargs", {})
    if foreign := [name for name in others if name.endswith("_fn")]:
        raise TypeError(
            f"{cls.__name__} has no arguments {foreign}, which are those of "
            "`tfp.layers`. A posterior is an initializer here and a prior a "
            "regularizer: "
            "`kernel_initializer=bl.initializers.TrainableNormal()`, "
            "`kernel_regularizer=bl.regularizers.NormalKLDivergence(stddev=1.0)`; the "
            "KL is scaled by `bl.scale_kl(model, dataset_size=N)`."
        )
    arguments.update(others)
    # An estimator takes care of its own.
    of_keras = {n: v for n, v in arguments.items() if n not in cls.own_arguments}
    for name, value in of_keras.items():
        if name.endswith("_initializer"):
            value = initializers.get(value)
            if isinstance(value, Posterior):
                value = value.with_default(parameters[name].default)
            arguments[name] = value
    for name, value in of_keras.items():
        weight, _, kind = name.rpartition("_")
        if kind != "regularizer":
            continue
        initializer = arguments.get(f"{weight}_initializer")
        is_random = isinstance(initializer, Posterior)
        if is_random and name not in given:
            # A weight that its initializer makes random has the default prior.
            value = cls.default_regularizer
        arguments[name] = regularizers.get(value)
        if is_random:
            regularizers.check(arguments[name], weight)
    return arguments


def _completed(cls, counterpart):
    """The docstring of a class with the section of its arguments put in."""
    text = inspect.cleandoc(cls.__doc__)
    theirs = _arguments(inspect.cleandoc(counterpart.__doc__ or ""))
    entries = {}
    for name in inspect.signature(cls).parameters:
        kind = random_argument(cls, name)
        undocumented = f"As in `keras.layers.{counterpart.__name__}`."
        entries[name] = theirs.get(name) or _OWN.get(name) or undocumented
        if name in cls.own_arguments:
            entries[name] = cls.own_arguments[name][1]
        elif kind == "initializer":
            entries[name] = (
                "The distribution over the weight, a `bl.initializers.Posterior` or "
                f"its name. Defaults to `{cls.default_initializer!r}`, whose mean "
                f"starts at Keras' default. An initializer of Keras makes the weight "
                "one value."
            )
        elif kind == "regularizer":
            entries[name] = (
                "The KL of that distribution from a prior. Defaults to "
                f"`{cls.default_regularizer!r}`."
            )
        elif name.endswith("bias_initializer"):
            entries[name] += ' `"trainable_normal"` makes the bias random too.'
    section = "\n".join(
        textwrap.fill(
            f"{name}: {entry}",
            width=80,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
        )
        for name, entry in entries.items()
    )
    section = (
        f"Arguments as in `keras.layers.{counterpart.__name__}`, but for what is said "
        f"of distributions.\n\nArgs:\n{section}\n\n"
    )
    before, example, after = text.partition("Example:\n")
    return f"{before}{section}{example}{after}"


def _arguments(docstring):
    """The text of each argument in the section `Args:` of a docstring of Keras."""
    _, _, rest = docstring.partition("Args:\n")
    section = re.split(r"\n(?=\S)", rest, maxsplit=1)[0]
    entries = re.split(r"\n(?= {4}\S)", "\n" + section)
    found = {}
    for entry in entries:
        match = re.match(r"\s*\*{0,2}([\w, *]+): (.*)", entry, flags=re.DOTALL)
        if match:
            text = " ".join(match.group(2).split())
            for name in re.split(r",\s*\**", match.group(1)):
                found[name] = text
    return found
