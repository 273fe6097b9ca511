"""Constructors of random variables, one per distribution: `bl.Normal(0.0, 1.0)`."""

import inspect

from bayesian_layers import distributions
from bayesian_layers.random_variable import RandomVariable

_KEYWORDS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
    for name, default in (
        ("sample_shape", ()),
        ("value", None),
        ("name", None),
        ("seed", None),
    )
]

_DOCSTRING = """A random variable: {summary}

All arguments of `bl.distributions.{name}`, which has the details, and those of
`bl.RandomVariable`:

Args:
{arguments}
    sample_shape: Integer or tuple: how many independent draws the variable holds.
    value: The value, if it is known; otherwise it is drawn when it is first read.
    name: The name by which `bl.tape`, `bl.condition` and other handlers know it.
    seed: `None`, an integer or a `keras.random.SeedGenerator`.

Returns:
    A `bl.RandomVariable` with the distribution `bl.distributions.{name}`.
"""


def _section(docstring, title):
    """The body of a docstring's section, as it stands, without its indentation."""
    _, _, rest = inspect.cleandoc(docstring).partition(f"{title}:\n")
    return rest.split("\n\n")[0]


def constructor(cls):
    """Makes the function that makes random variables of a distribution's class."""
    signature = inspect.signature(cls)

    def construct(*args, sample_shape=(), value=None, name=None, seed=None, **kwargs):
        return RandomVariable(
            cls(*args, **kwargs),
            value=value,
            sample_shape=sample_shape,
            name=name,
            seed=seed,
        )

    construct.__name__ = construct.__qualname__ = cls.__name__
    construct.__module__ = "bayesian_layers"
    construct.__signature__ = signature.replace(
        parameters=[*signature.parameters.values(), *_KEYWORDS],
        return_annotation=RandomVariable,
    )
    construct.__doc__ = _DOCSTRING.format(
        name=cls.__name__,
        summary=_first_line(cls)[0].lower() + _first_line(cls)[1:],
        arguments=_section(cls.__doc__, "Args"),
    )
    return construct


def _first_line(cls):
    return inspect.cleandoc(cls.__doc__).splitlines()[0]


CONSTRUCTORS = {
    name: constructor(cls)
    for name, cls in vars(distributions).items()
    if inspect.isclass(cls)
    and issubclass(cls, distributions.Distribution)
    and cls is not distributions.Distribution
}
