"""A program and its data: what is run, and what is known of it."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Distribution
from bayesian_layers.handlers import condition, tape
from bayesian_layers.handlers import seed as seeded
from bayesian_layers.keras_contact import (
    KeptVariables,
    in_stateless_scope,
    variables_read,
)
from bayesian_layers.losses.alignment import align
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights import role

TARGET = "y"


class BoundProgram:
    """A program with its data: a function without arguments.

    A program is a Python function that makes random variables, by `bl.Normal(...,
    name="w")` and the like, and by calling layers. Calling a `BoundProgram` runs it on
    its arguments with the observed variables set to their data (`bl.condition`).

    Args:
        program: A function, or a Keras model or layer.
        data: For a function, a dictionary: entries named like a parameter of the
            function are its arguments, the others are the values of its observed
            random variables, by name. A tuple is taken for the arguments alone, where
            the program observes by itself (`bl.Normal(..., value=y)`). For a Keras
            model `(x, y)`, inputs and targets, or `(x,)`.
        likelihood: Of a Keras model whose output is no random variable: a function from
            its outputs to the distribution of the targets, such as
            `lambda f: bl.distributions.Normal(f, 0.1)`; an output layer will do. The
            targets are then the random variable `"y"`.

    Attributes:
        observed: The data of observed variables, by name.

    Example:
    >>> def program(x):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w * x, 1.0, name="y")
    >>> x = np.ones(3, "float32")
    >>> bound = bl.programs.BoundProgram(program, {"x": x, "y": 2.0 * x})
    >>> list(bl.programs.latent_variables(bound))
    ['w']
    """

    def __init__(
        self,
        program: Callable,
        data: Mapping[str, Any] | tuple | None = None,
        likelihood: Callable | None = None,
    ):
        self.program = program
        self.observed = {}
        self.arguments = ()
        self.named_arguments = {}
        if isinstance(program, keras.Layer):
            self._bind_model(program, data, likelihood)
        elif likelihood is not None:
            raise ValueError(
                "`likelihood` belongs to a Keras model; a function makes its observed "
                f"variables itself. Received: {program!r}, likelihood={likelihood!r}"
            )
        elif data is None or isinstance(data, Mapping):
            self.bind(data or {})
        elif isinstance(data, (tuple, list)):
            self.arguments = tuple(map(as_tensors, data))
        else:
            raise TypeError(
                "`data` of a program should be a dictionary of its arguments and "
                "observed variables, or a tuple of its arguments. Received: "
                f"{type(data).__name__}"
            )

    def bind(self, data):
        """Takes entries of a dictionary for arguments, and the others for data."""
        names = parameter_names(self.program)
        for name, value in data.items():
            if name in names:
                self.named_arguments[name] = as_tensors(value)
            else:
                self.observed[name] = value

    def _bind_model(self, model, data, likelihood):
        if data is None:
            data = ()
        if not isinstance(data, (tuple, list)) or len(data) > 2:
            raise ValueError(
                "`data` of a Keras model should be a tuple (x, y) of inputs and "
                f"targets. Received: {type(data).__name__}"
            )
        if likelihood is not None:
            self.program = _with_likelihood(model, likelihood)
        self.arguments = tuple(map(as_tensors, data[:1]))
        if len(data) < 2:
            return
        found = []

        def run():
            with role("prior"), tape(), seeded(0):
                found.append(self())

        run_symbolically(run)
        (output,) = found
        if not isinstance(output, RandomVariable):
            raise ValueError(
                f"The output of {model.name!r} is no random variable, so it says "
                "nothing of the probability of targets. Give `likelihood`, a function "
                "from outputs to a distribution such as `lambda f: "
                "bl.distributions.Normal(f, 0.1)`, or end the model with an output "
                "layer such as `bl.layers.Normal(1)`."
            )
        targets = align(data[1], tuple(output.shape), output.distribution)
        self.observed[output.name] = targets

    def run(self, *args: Any, **named: Any) -> Any:
        """Runs the program on its arguments, and on further ones, without data."""
        args = (*self.arguments, *map(as_tensors, args))
        named = {name: as_tensors(value) for name, value in named.items()}
        with _seeds_left_alone():
            return self.program(*args, **{**self.named_arguments, **named})

    def __call__(self) -> Any:
        """Runs the program, with its observed variables at their data."""
        with condition(self.observed):
            return self.run()


def latent_variables(
    program: Callable,
    data: Mapping[str, Any] | tuple | None = None,
    *,
    likelihood: Callable | None = None,
    seed: Any = None,
) -> dict[str, RandomVariable]:
    """The random variables of a program that are not observed, from one run of it.

    Layers act as a model: the distributions of random weights are their priors, and
    their values are draws from these.

    Args:
        program: A function, or a Keras model or layer.
        data: See `bl.programs.BoundProgram`.
        likelihood: See `bl.programs.BoundProgram`.
        seed: Of the values, as in `bl.seed`. Defaults to the state of seeds.

    Returns:
        A dictionary from names to `bl.RandomVariable`s, in the order of drawing.

    Example:
    >>> layers = [bl.layers.DenseFlipout(2, name="dense"), bl.layers.Normal()]
    >>> model = keras.Sequential([keras.Input((3,)), *layers], name="model")
    >>> data = (np.ones((8, 3)), np.ones((8, 1)))
    >>> list(bl.programs.latent_variables(model, data))
    ['model/dense/kernel']
    """
    if not isinstance(program, BoundProgram):
        program = BoundProgram(program, data, likelihood)
    with contextlib.ExitStack() as stack:
        stack.enter_context(role("prior"))
        record = stack.enter_context(tape())
        if seed is not None:
            stack.enter_context(seeded(seed))
        program()
    return record.latent()


def parameter_names(program):
    """The names of the parameters of a function that can be given by name."""
    parameters = inspect.signature(program).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in parameters if p.kind in kinds}


def as_tensors(argument):
    """Arrays of NumPy as tensors, floating ones in Keras' own precision.

    A product of an array and a tensor is no tensor on PyTorch. All else is left as it
    is: an integer may be the length of a loop.
    """

    def convert(value):
        if not isinstance(value, np.ndarray):
            return value
        is_float = keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(value.dtype)
        )
        return ops.convert_to_tensor(value, keras.config.floatx() if is_float else None)

    return keras.tree.map_structure(convert, argument)


def _with_likelihood(model, likelihood):
    """The program of a Keras model with a distribution of its targets."""

    def program(x):
        distribution = likelihood(model(x))
        if isinstance(distribution, RandomVariable):
            # Of an output layer: the layer has drawn it, under its own name.
            return distribution
        if not isinstance(distribution, Distribution):
            raise TypeError(
                "`likelihood` should return a distribution such as "
                f"`bl.distributions.Normal(f, 0.1)`. Received: {distribution!r}"
            )
        return RandomVariable(distribution, name=TARGET)

    return program


def run_symbolically(function):
    """Runs a function without arguments for what it does in Python.

    JAX and TensorFlow compute nothing. Layers may be built by it.

    Returns:
        The variables that it reads.
    """

    def run():
        function()
        return []

    return variables_read(lambda: backend.output_spec(run))


def _seeds_left_alone():
    """Keeps what a compiled function would assign to variables inside of it.

    Recurrent cells renew their seeds, though nothing is drawn by them.
    """
    if backend.is_compiling() and not in_stateless_scope():
        return KeptVariables()
    return contextlib.nullcontext()
