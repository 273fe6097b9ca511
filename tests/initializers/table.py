"""One row for every posterior: how it is made, and what it is in a layer."""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy import stats

from bayesian_layers import initializers, layers
from tests.initializers.checks import dense

SHAPE = (3, 2)
SIZE = 6


@dataclasses.dataclass(frozen=True)
class Row:
    """A posterior over a kernel of shape [3, 2], and NumPy's idea of it.

    A posterior with independent elements has a `reference`: a frozen distribution of
    SciPy, given the numbers in the variables. One with dependent elements has
    `moments`: the mean `[6]` and the covariance `[6, 6]`.
    """

    make: Callable
    variables: dict  # shapes by name, in their order
    reference: Callable | None = None
    moments: Callable | None = None
    has_mean: bool = True
    default: dict = dataclasses.field(default_factory=dict)  # how a variable starts


def softplus(x):
    return np.logaddexp(0.0, x)


def _low_rank(v):
    covariance = v["kernel_factor"] @ v["kernel_factor"].T
    variance = np.square(softplus(v["kernel_scale"])).ravel()
    return v["kernel"].ravel(), covariance + np.diag(variance)


def _full(v):
    tril = np.tril(v["kernel_tril"], -1)
    tril += np.diag(softplus(np.diag(v["kernel_tril"])))
    return v["kernel"].ravel(), tril @ tril.T


def _full_rows(v):
    covariance = np.zeros((SIZE, SIZE))
    for i, tril in enumerate(v["kernel_tril"]):
        tril = np.tril(tril, -1) + np.diag(softplus(np.diag(tril)))
        row = slice(i * SHAPE[1], (i + 1) * SHAPE[1])
        covariance[row, row] = tril @ tril.T
    return v["kernel"].ravel(), covariance


def _kronecker(v):
    rows, columns = (
        np.tril(v[name], -1) + np.diag(softplus(np.diag(v[name])))
        for name in ("kernel_row_tril", "kernel_column_tril")
    )
    return v["kernel"].ravel(), np.kron(rows @ rows.T, columns @ columns.T)


def _radial(v):
    variance = np.square(softplus(v["kernel_scale"])).ravel() / SIZE
    return v["kernel"].ravel(), np.diag(variance)


def _dropout(v):
    square = np.square(v["kernel"])
    log_alpha = np.log(np.square(softplus(v["kernel_scale"])) / square)
    alpha = np.exp(np.clip(log_alpha, -8.0, 8.0))
    return stats.norm(v["kernel"], np.sqrt(alpha * square))


def _location_scale(family):
    return lambda v: family(v["kernel"], softplus(v["kernel_scale"]))


LOC = {"kernel": SHAPE}
LOC_SCALE = {"kernel": SHAPE, "kernel_scale": SHAPE}
STARTS = {"kernel_scale": np.full(SHAPE, -3.0)}

ROWS = {
    "TrainableNormal": Row(
        initializers.TrainableNormal,
        LOC_SCALE,
        _location_scale(stats.norm),
        default=STARTS,
    ),
    "TrainableNormalFanIn": Row(
        initializers.TrainableNormalFanIn,
        LOC_SCALE,
        _location_scale(stats.norm),
        default={
            "kernel_scale": np.full(
                SHAPE, np.log(np.expm1(softplus(-3.0) / np.sqrt(SHAPE[0]))), "float32"
            )
        },
    ),
    "TrainableNormalSharedStddev": Row(
        initializers.TrainableNormalSharedStddev,
        {"kernel": SHAPE, "kernel_scale": ()},
        _location_scale(stats.norm),
        default={"kernel_scale": np.array(-3.0)},
    ),
    "TrainableNormalFixedStddev": Row(
        lambda **kwargs: initializers.TrainableNormalFixedStddev(0.7, **kwargs),
        LOC,
        lambda v: stats.norm(v["kernel"], 0.7),
    ),
    "TrainableDropoutNormal": Row(
        initializers.TrainableDropoutNormal, LOC_SCALE, _dropout, default=STARTS
    ),
    "TrainableDeterministic": Row(
        initializers.TrainableDeterministic,
        LOC,
        moments=lambda v: (v["kernel"].ravel(), np.zeros((SIZE, SIZE))),
    ),
    "TrainableCauchy": Row(
        initializers.TrainableCauchy,
        LOC_SCALE,
        _location_scale(stats.cauchy),
        has_mean=False,
        default=STARTS,
    ),
    # A flow with weights has tests of its own.
    "TrainableFlow": Row(
        lambda **kwargs: initializers.TrainableFlow(
            layers.Affine(0.5, -2.0, name="flow"), **kwargs
        ),
        LOC_SCALE,
        lambda v: stats.norm(
            v["kernel"] + 0.5 * softplus(v["kernel_scale"]),
            2.0 * softplus(v["kernel_scale"]),
        ),
        has_mean=False,
        default=STARTS,
    ),
    "TrainableHalfCauchy": Row(
        initializers.TrainableHalfCauchy,
        LOC_SCALE,
        _location_scale(stats.halfcauchy),
        has_mean=False,
        default=STARTS,
    ),
    "TrainableLogNormal": Row(
        initializers.TrainableLogNormal,
        LOC_SCALE,
        lambda v: stats.lognorm(softplus(v["kernel_scale"]), scale=np.exp(v["kernel"])),
        default=STARTS,
    ),
    "TrainableLowRankNormal": Row(
        lambda **kwargs: initializers.TrainableLowRankNormal(2, **kwargs),
        {**LOC_SCALE, "kernel_factor": (SIZE, 2)},
        moments=_low_rank,
        default=STARTS,
    ),
    "TrainableMultivariateNormal": Row(
        initializers.TrainableMultivariateNormal,
        {"kernel": SHAPE, "kernel_tril": (SIZE, SIZE)},
        moments=_full,
        default={"kernel_tril": -3.0 * np.eye(SIZE)},
    ),
    "TrainableMultivariateNormalRows": Row(
        initializers.TrainableMultivariateNormalRows,
        {"kernel": SHAPE, "kernel_tril": (*SHAPE, SHAPE[1])},
        moments=_full_rows,
        default={
            "kernel_tril": np.broadcast_to(
                np.log(np.expm1(1.0)) * np.eye(2, dtype="float32"), (3, 2, 2)
            )
        },
    ),
    "TrainableKroneckerNormal": Row(
        initializers.TrainableKroneckerNormal,
        {"kernel": SHAPE, "kernel_row_tril": (3, 3), "kernel_column_tril": (2, 2)},
        moments=_kronecker,
        default={
            f"kernel_{name}_tril": np.float32(np.log(np.expm1(softplus(-3.0) ** 0.5)))
            * np.eye(size, dtype="float32")
            for name, size in (("row", 3), ("column", 2))
        },
    ),
    "TrainableRadial": Row(
        initializers.TrainableRadial, LOC_SCALE, moments=_radial, default=STARTS
    ),
}


def randomized(row):
    """The random kernel of a layer, and the numbers that its variables were given."""
    layer = dense(kernel_initializer=row.make())
    rng = np.random.default_rng(0)
    numbers = {}
    for variable in layer.random_weights["kernel"].variables.values():
        value = rng.normal(size=tuple(variable.shape)).astype("float32")
        variable.assign(value)
        numbers[variable.name] = value.astype("float64")
    return layer.random_weights["kernel"], numbers
