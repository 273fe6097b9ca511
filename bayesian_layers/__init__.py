"""Bayesian Layers: uncertainty for Keras 3.

>>> import bayesian_layers as bl
>>> w = bl.Normal(0.0, 1.0, sample_shape=(3,), name="w", seed=1)
>>> round(float(w.log_prob(0.0)), 4)
-0.9189
"""

from bayesian_layers.default_backend import select_default_backend

select_default_backend()

from bayesian_layers import (  # noqa: E402
    calibrate,
    callbacks,
    covariances,
    distributions,
    initializers,
    layers,
    linalg,
    losses,
    metrics,
    optimizers,
    parameterizations,
    plots,
    programs,
    regularizers,
)
from bayesian_layers.constructors import CONSTRUCTORS  # noqa: E402
from bayesian_layers.conversion import to_bayesian, to_deterministic  # noqa: E402
from bayesian_layers.draws import Draws  # noqa: E402
from bayesian_layers.ensemble import Ensemble  # noqa: E402
from bayesian_layers.expected_log_likelihood import (  # noqa: E402
    expected_log_likelihood,
)
from bayesian_layers.handlers import (  # noqa: E402
    block,
    condition,
    replay,
    seed,
    substitute,
    tape,
)
from bayesian_layers.layers.reversible import Sequential  # noqa: E402
from bayesian_layers.mean_field import mean_field_logits  # noqa: E402
from bayesian_layers.prediction import Prediction, predict  # noqa: E402
from bayesian_layers.programs import (  # noqa: E402
    FullRankGuide,
    MeanFieldGuide,
    VariationalInference,
    elbo,
    make_log_joint_fn,
    mcmc,
)
from bayesian_layers.random_variable import RandomVariable  # noqa: E402
from bayesian_layers.random_weights import (  # noqa: E402
    RandomWeight,
    load_deterministic_weights,
    role,
    scale_kl,
    total_kl,
    weights,
)
from bayesian_layers.trace import (  # noqa: E402
    draw,
    get_next_tracer,
    trace,
    traceable,
)
from bayesian_layers.version import __version__  # noqa: E402

globals().update(CONSTRUCTORS)

__all__ = [
    "Draws",
    "Ensemble",
    "FullRankGuide",
    "MeanFieldGuide",
    "Prediction",
    "RandomVariable",
    "RandomWeight",
    "Sequential",
    "VariationalInference",
    "__version__",
    "block",
    "calibrate",
    "callbacks",
    "condition",
    "covariances",
    "distributions",
    "draw",
    "elbo",
    "expected_log_likelihood",
    "get_next_tracer",
    "initializers",
    "layers",
    "linalg",
    "load_deterministic_weights",
    "losses",
    "make_log_joint_fn",
    "mcmc",
    "mean_field_logits",
    "metrics",
    "optimizers",
    "parameterizations",
    "plots",
    "predict",
    "programs",
    "regularizers",
    "replay",
    "role",
    "scale_kl",
    "seed",
    "substitute",
    "tape",
    "to_bayesian",
    "to_deterministic",
    "total_kl",
    "trace",
    "traceable",
    "weights",
    *CONSTRUCTORS,
]
