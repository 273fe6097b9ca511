"""The log-density of all random variables of a program."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions import Deterministic
from bayesian_layers.handlers import (
    hand_on,
    handle,
    is_observed,
    is_part_of_programs,
)
from bayesian_layers.programs.bound import BoundProgram, parameter_names
from bayesian_layers.random_weights import role
from bayesian_layers.sites import Sites


class LogJoint:
    """The log joint density of a program, as a function of values.

    `bl.make_log_joint_fn` makes it, and says what it is.

    Args:
        program: The `bl.programs.BoundProgram`.
    """

    def __init__(self, program: BoundProgram):
        self.program = program

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Returns the sum of the log-densities of all variables, a scalar."""
        names = parameter_names(self.program.program) & set(values)
        named = {name: values.pop(name) for name in names}
        values = {**self.program.observed, **values}
        return log_joint_of(lambda: self.program.run(*args, **named), values)

    def over_chains(self, **values: Any) -> Any:
        """Returns the log joint at several points, one number for each.

        Args:
            **values: The values of variables, all with a leading axis of chains. What
                is the same for all chains is given to `make_log_joint_fn` as `data`.
        """
        values = keras.tree.map_structure(ops.convert_to_tensor, values)
        return backend.vectorize(lambda point: self(**point))(values)


def make_log_joint_fn(
    program: Callable,
    data: Mapping[str, Any] | tuple | None = None,
    *,
    likelihood: Callable | None = None,
) -> LogJoint:
    """Makes the log joint density of a program, a function of values of its variables.

    log p(z_1, ..., z_n) = sum over variables of log p(z_i | what the program made
    before), each summed over all of its elements

    Layers act as a model (`bl.role("prior")`): their random weights count with their
    priors, once each however often a layer is used, by names such as
    `"model/dense/kernel"`; what output layers and Gaussian processes return counts
    given their inputs. `kl_scale` and `scale_factor` are matters of training and play
    no part.

    The result is a function `log_joint(*args, **values)` of one point, a scalar. It is
    differentiable and can be compiled on every backend, and mapped by `jax.vmap`.
    `log_joint.over_chains(**values)` evaluates it at many points, on every backend:
    values have a leading axis, and so has the result.

    A variable that is `bl.Deterministic` needs no value, and one that is observed in
    the program (`bl.Normal(..., value=y)`) has one.

    Args:
        program: A function that makes random variables, or a Keras model or layer.
        data: What is known: for a function a dictionary of arguments and of values of
            random variables, for a Keras model `(x, y)`; see
            `bl.programs.BoundProgram`. Defaults to nothing.
        likelihood: A function from the outputs of a Keras model to a distribution of
            its targets, which are then called `"y"`; see `bl.programs.BoundProgram`.

    Returns:
        A function of the arguments of the program, by position or by name, and of the
        values of its random variables, by name (`**{"model/dense/kernel": value}`).
        It raises a `LookupError` that lists the variables without a value, and a
        `ValueError` for a name that no variable has.

    Example:
    >>> def program(x):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w * x, 1.0, name="y")
    >>> log_joint = bl.make_log_joint_fn(program)
    >>> x = np.ones(2, "float32")
    >>> round(float(log_joint(x, w=0.0, y=x)), 4)
    -3.7568
    >>> log_joint = bl.make_log_joint_fn(program, {"x": x, "y": x})
    >>> ops.shape(log_joint.over_chains(w=np.zeros(4, "float32")))
    (4,)
    """
    return LogJoint(BoundProgram(program, data, likelihood))


def log_joint_of(run, values):
    """The log joint of a function without arguments, a scalar.

    Args:
        run: The function.
        values: The values of its random variables by name, or by random weight.
    """
    sites, known, by_source, used, shapes = Sites(), [], {}, set(), {}

    def handler(site):
        name, source, distribution = (
            site[key] for key in ("name", "source", "distribution")
        )
        if source is not None and source in by_source:
            return by_source[source]
        if name is not None and name in (entry.name for entry in sites):
            raise ValueError(
                f"The name {name!r} is used twice in one program. Give each random "
                f"variable a name of its own. Names so far: {_names(sites)}"
            )
        key = next((k for k in (source, name) if k is not None and k in values), None)
        if key is not None:
            used.add(key)
            site.update(value=values[key], observed=True)
        elif isinstance(distribution, Deterministic) and source is None:
            return hand_on(site)
        is_known = is_observed(site)
        entry = sites.add(site, is_known=is_known)
        if entry.state == "open":
            # Any value will do, to find what else is missing.
            site.update(seed=0)
            shapes[entry] = distribution.shape(site.get("sample_shape", ()))
        value = hand_on(site)
        if is_known:
            known.append((distribution, value))
        if source is not None:
            by_source[source] = value
        return value

    with role("prior"), handle(handler, is_part_of_programs):
        run()
    missing = {entry.name: shapes[entry] for entry in sites if entry.state == "open"}
    if missing:
        raise LookupError(_missing_message(missing, values))
    unknown = [str(key) for key in values if key not in used]
    if unknown:
        raise ValueError(
            f"The program has no random variables {unknown}. It has: {_names(sites)}"
        )
    return total([ops.sum(q.log_prob(value)) for q, value in known])


def _names(sites):
    return [entry.name for entry in sites if entry.name is not None]


def total(terms):
    """The sum of scalars, in the widest of their dtypes; 0 if there are none."""
    if not terms:
        return ops.zeros((), keras.config.floatx())
    dtype = keras.backend.result_type(*(term.dtype for term in terms))
    first, *others = (ops.cast(term, dtype) for term in terms)
    return sum(others, first)


def _missing_message(missing, values):
    if None in missing:
        return (
            "The log joint needs a value of each random variable, and this program has "
            'one without a name. Give each a name: `bl.Normal(..., name="w")`.'
        )
    listed = ", ".join(f"{name!r} of shape {shape}" for name, shape in missing.items())
    return (
        f"The log joint needs a value of each random variable. Missing: {listed}. "
        f"Received values of: {sorted(map(str, values))}"
    )
