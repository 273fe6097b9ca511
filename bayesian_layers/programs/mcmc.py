"""Draws from the posterior of a program or of a model, by Markov chain Monte Carlo."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bayesian_layers import seeds
from bayesian_layers.draws import Draws
from bayesian_layers.optional import optional_module
from bayesian_layers.programs.bound import BoundProgram
from bayesian_layers.programs.unconstrained import Unconstrained
from bayesian_layers.random_weights.kl import random_weights

KERNELS = {"nuts": "NUTS", "hmc": "HMC"}
CHAIN_METHODS = ("vectorized", "sequential", "parallel")
STARTS = ("uniform", "prior", "posterior")
# How often a chain that starts where the density is zero is given another start.
MOST_STARTS = 100
# What is told of each draw, by the names of NumPyro and of ArviZ.
STATISTICS = {
    "diverging": "diverging",
    "accept_prob": "acceptance_rate",
    "num_steps": "n_steps",
    "potential_energy": "lp",
    "energy": "energy",
}


def mcmc(
    program: Callable,
    data: Mapping[str, Any] | tuple | None = None,
    *,
    likelihood: Callable | None = None,
    kernel: str = "nuts",
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    seed: int | None = None,
    start: str | Mapping[str, Any] = "uniform",
    chain_method: str = "vectorized",
    progress_bar: bool = True,
    **options: Any,
) -> Draws:
    """Draws from the posterior of a program, or of the weights of a Keras model.

    The density is that of `bl.make_log_joint_fn`, as a function of the variables that
    are not observed. Each of them is mapped from the real line to its support by
    `bl.distributions.transform_to`, and the chains of NumPyro move there: the No-U-Turn
    sampler or Hamiltonian Monte Carlo, with step size and masses adapted in the
    warm-up.

    Of a Keras model with Bayesian layers the random weights are drawn from the true
    posterior under their priors; the approximate posterior of training plays no part,
    but that chains may start from it. Weights that are points, such as biases by
    default, are held at what they are, and a warning names them. `bl.predict(model, x,
    draws=draws)` predicts by the draws.

    It needs the JAX backend, and the extra `mcmc`: `pip install
    "bayesian-layers[mcmc]"`. All of the data is used in each step; for data that are
    too large for it see `bl.optimizers.SGLD`.

    Args:
        program: A function that makes random variables, or a Keras model.
        data: What is known: a dictionary of arguments and observed variables of the
            function, or `(x, y)` for a model; see `bl.programs.BoundProgram`.
        likelihood: For a model whose output is no random variable, a function from its
            outputs to the distribution of targets: `lambda f:
            bl.distributions.Normal(f, 0.1)`.
        kernel: `"nuts"` or `"hmc"`.
        num_warmup: The number of steps before the first draw, for each chain.
        num_samples: The number of draws of each chain.
        num_chains: The number of chains.
        seed: Integer: equal ones give equal draws. Defaults to a random one, which
            `keras.utils.set_random_seed` sets.
        start: Where chains start: `"uniform"`, between -2 and 2 on the real line;
            `"prior"`, at draws of the program; `"posterior"`, at draws from what the
            layers of a model have learned; or a dictionary of values `[num_chains,
            ...]` by name.
        chain_method: `"vectorized"`, all chains at once; `"sequential"`; or
            `"parallel"`, on as many devices.
        progress_bar: Whether to show one.
        **options: As in `numpyro.infer.NUTS` or `HMC`: `target_accept_prob`,
            `dense_mass`, `max_tree_depth`, `trajectory_length`, ...

    Returns:
        `bl.Draws`: arrays `[num_chains, num_samples, ...]` by name, in the space of the
        variables; those of `bl.Deterministic` too. Its `summary()` tells r-hat and
        effective sample sizes, `to_arviz()` is for ArviZ.

    Raises:
        RuntimeError: On another backend than JAX.
        ValueError: If a variable that is not observed is discrete.

    Example:
    >>> def program(x):
    ...     w = bl.Normal(0.0, 1.0, name="w")
    ...     return bl.Normal(w * x, 1.0, name="y")
    >>> data = {"x": np.ones(8, "float32"), "y": np.ones(8, "float32")}
    >>> settings = {"num_warmup": 200, "num_samples": 50, "num_chains": 2, "seed": 0}
    >>> if keras.backend.backend() == "jax":
    ...     draws = bl.mcmc(program, data, progress_bar=False, **settings)
    ...     assert draws["w"].shape == (2, 50)
    """
    _check_backend()
    _check_arguments(kernel, num_warmup, num_samples, num_chains, start, chain_method)
    infer = optional_module("numpyro.infer", "mcmc")
    if seed is None:
        seed = int(np.random.randint(2**31))  # What `set_random_seed` seeds.
    start_seed, chain_seed = seeds.split(seed, 2)
    bound = BoundProgram(program, data, likelihood)
    density = Unconstrained(bound)
    if isinstance(program, keras.Layer):
        _warn_of_points(program)
    sampler = infer.MCMC(
        getattr(infer, KERNELS[kernel])(potential_fn=density.potential, **options),
        num_warmup=num_warmup,
        num_samples=num_samples,
        num_chains=num_chains,
        chain_method=chain_method,
        progress_bar=progress_bar,
    )
    positions = _starts(density, start, num_chains, start_seed)
    if num_chains == 1:
        positions = {name: value[0] for name, value in positions.items()}
    key = ops.convert_to_tensor(np.array([0, chain_seed], "uint32"))
    sampler.run(key, init_params=positions, extra_fields=tuple(STATISTICS))
    statistics = {
        STATISTICS[name]: np.asarray(value)
        for name, value in sampler.get_extra_fields(group_by_chain=True).items()
    }
    statistics["lp"] = -statistics["lp"]
    values = density.constrain(sampler.get_samples(group_by_chain=True))
    _warn_of_divergences(statistics["diverging"])
    return Draws(values, statistics, *_weights_of(program, density))


def _check_backend():
    if keras.backend.backend() != "jax":
        raise RuntimeError(
            "`bl.mcmc` runs on JAX: set the environment variable KERAS_BACKEND=jax "
            "before Keras is imported. On every backend there are "
            "`bl.optimizers.SGLD` and `SGHMC`. Received: the backend "
            f"{keras.backend.backend()!r}"
        )


def _check_arguments(kernel, num_warmup, num_samples, num_chains, start, chain_method):
    choices = [("kernel", kernel, tuple(KERNELS))]
    choices.append(("chain_method", chain_method, CHAIN_METHODS))
    if not isinstance(start, Mapping):
        choices.append(("start", start, STARTS))
    for name, value, allowed in choices:
        if value not in allowed:
            raise ValueError(
                f"`{name}` of `bl.mcmc` should be one of {allowed}. "
                f"Received: {name}={value!r}"
            )
    for name, value, least in (
        ("num_warmup", num_warmup, 0),
        ("num_samples", num_samples, 1),
        ("num_chains", num_chains, 1),
    ):
        if not (isinstance(value, int) and value >= least):
            raise ValueError(
                f"`{name}` of `bl.mcmc` should be an integer of at least {least}. "
                f"Received: {name}={value!r}"
            )


def _starts(density, start, num_chains, seed):
    """Where chains start, on the real line: arrays `[num_chains, ...]` by name."""
    if isinstance(start, Mapping):
        positions = density.unconstrain(start, num_chains)
        is_valid = density.is_valid(positions)
        if not np.all(is_valid):
            raise ValueError(
                "The density is zero, or not a number, where chains should start. "
                f"Received: start with such values for chains {np.where(~is_valid)[0]}"
            )
        return positions
    positions, is_valid = None, np.zeros(num_chains, bool)
    for number in range(MOST_STARTS):
        attempt = density.random(start, num_chains, seeds.at_position(seed, number))
        valid = density.is_valid(attempt)
        if positions is None:
            positions, is_valid = attempt, valid
        for name, value in positions.items():
            taken = (valid & ~is_valid).reshape(-1, *[1] * (value.ndim - 1))
            positions[name] = np.where(taken, attempt[name], value)
        is_valid = is_valid | valid
        if is_valid.all():
            return positions
    raise ValueError(
        f"No place to start was found in {MOST_STARTS} attempts: the log joint of the "
        "program is not finite there. Look for values outside of the support of an "
        f'observed variable, or give other starts. Received: start="{start}"'
    )


def _weights_of(program, density):
    """The kind of the draws, and where those of weights are in the model."""
    if not isinstance(program, keras.Layer):
        return None, None
    order = {weight: i for i, weight in enumerate(random_weights(program))}
    sources = {name: site.source for name, site in density.sites.items()}
    return "random_weights", {n: order[s] for n, s in sources.items() if s in order}


def _warn_of_points(model):
    """Says which weights of a model are not drawn, as they are points."""
    random = {
        id(variable)
        for weight in random_weights(model)
        for variable in (*weight.variables.values(), *weight.prior_variables)
    }
    points = [v.path for v in model.trainable_variables if id(v) not in random]
    if points:
        warnings.warn(
            f"Weights that are points are held at their values: {points}. To draw them "
            "too, give them a distribution and a prior, such as "
            '`bias_initializer="trainable_normal", '
            'bias_regularizer="normal_kl_divergence"` in a layer of `bl.layers`.',
            stacklevel=3,
        )


def _warn_of_divergences(diverging):
    if diverging.any():
        warnings.warn(
            f"{diverging.sum()} of {diverging.size} draws are of trajectories that "
            "diverged: part of the posterior may be missing. Take smaller steps, "
            "`target_accept_prob=0.95`, or write the program in variables that depend "
            "less on each other.",
            stacklevel=3,
        )
