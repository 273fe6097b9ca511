"""Logits that account for their variance."""

import math
from typing import Any

from keras import ops


def mean_field_logits(
    logits: Any, variance: Any, mean_field_factor: float = math.pi / 8.0
) -> Any:
    """Logits of the expected probabilities, for normal logits of known moments.

    For l ~ Normal(logits, sqrt(variance)), E[sigmoid(l)] is close to
    sigmoid(logits / sqrt(1 + pi / 8 variance)): for one logit it is off by less than
    0.02, whatever its moments. For classes, softmax of the adjusted logits stands for
    E[softmax(l)]; there it is a rule of thumb, right in that a variance that is the
    same for all classes takes confidence away.

    Args:
        logits: Means of the logits, `[...]`.
        variance: Their variances, not negative, of a shape that broadcasts.
        mean_field_factor: What multiplies the variance, not negative. Defaults to
            pi / 8; 0 leaves the logits as they are.

    Returns:
        logits / sqrt(1 + mean_field_factor * variance), a tensor.

    Example:
    >>> [round(float(l), 4) for l in bl.mean_field_logits([2.0, 2.0], [0.0, 10.0])]
    [2.0, 0.901]

    Reference: Lu, Ie and Sha (2020), Mean-field approximation to Gaussian-softmax
    integral with application to uncertainty estimation.
    """
    if not mean_field_factor >= 0.0:
        raise ValueError(
            "`mean_field_factor` should not be negative. "
            f"Received: mean_field_factor={mean_field_factor}"
        )
    logits, variance = ops.convert_to_tensor(logits), ops.convert_to_tensor(variance)
    return logits / ops.sqrt(1.0 + mean_field_factor * variance)
