"""What is predicted along one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bayesian_layers.distributions import Categorical, Deterministic, OneHotCategorical
from bayesian_layers.plots import arrays
from bayesian_layers.plots.axes import (
    check_axes,
    describe,
    draw_legend,
    ink,
    make_axes,
)
from bayesian_layers.prediction.moments import CLASSIFIERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesian_layers.prediction import Prediction


def predictive(
    x: Any,
    prediction: Prediction,
    *,
    probabilities: float | Sequence[float] = 0.9,
    data: tuple[Any, Any] | None = None,
    functions: int = 0,
    output: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What a model predicts along one input, and how sure it is.

    Each draw of the weights is one function: the mean of the outputs, given the
    weights. The picture shows the mean of these functions and, for each probability,
    two bands: the central interval of the outputs with their noise
    (`prediction.interval`), and within it that of the functions (epistemic: what more
    data would narrow). A model with plain outputs has no noise, and only the second.
    So has a classifier, where the functions are the probability of a class.

    Args:
        x: The inputs, `[n]` or `[n, 1]`, in any order.
        prediction: What `bl.predict` returned for them, with its samples.
        probabilities: The probability of the bands, between 0 and 1, or several.
        data: The training data `(x, y)`, drawn as points.
        functions: How many of the functions to draw, taken evenly from the draws.
        output: Which output, or which class, of a model with several.
        ax: Where to draw. Defaults to a new figure.

    Returns:
        The `matplotlib.axes.Axes`.

    Example:
    >>> import matplotlib.pyplot as plt
    >>> model = keras.Sequential(
    ...     [keras.Input((1,)), bl.layers.DenseFlipout(1), bl.layers.Normal(1)]
    ... )
    >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> prediction = bl.predict(model, x, num_samples=10, verbose=0)
    >>> ax = bl.plots.predictive(x, prediction, data=([0.0, 0.5], [0.1, 0.4]))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['90% of outputs', '90% of functions', 'mean', 'data']
    >>> plt.close(ax.figure)
    """
    arrays.check_prediction(prediction)
    x = arrays.one_column("x", x)
    # The widest first: the others are drawn over it.
    probabilities = np.sort(arrays.probabilities("probabilities", probabilities))[::-1]
    _check_functions(functions, prediction.num_samples)
    column = _column(prediction, len(x), output)
    points = None if data is None else _points(data, prediction, output)
    check_axes(ax)

    order = np.argsort(x, kind="stable")
    values = column(_functions(prediction))[:, order]
    has_noise = not isinstance(prediction.distribution, (Deterministic, *CLASSIFIERS))
    ends = [prediction.interval(p) for p in probabilities if has_noise]
    outer = [(column(low)[order], column(high)[order]) for low, high in ends]
    tails = 0.5 * (1.0 - probabilities)
    inner = [np.quantile(values, (tail, 1.0 - tail), axis=0) for tail in tails]

    [ax] = make_axes(ax)
    x = x[order]
    if has_noise:
        _draw_bands(ax, x, outer, probabilities, "outputs", color="C0", alpha=0.22)
    _draw_bands(ax, x, inner, probabilities, "functions", color="C1", alpha=0.35)
    _draw_functions(ax, x, values, functions)
    ax.plot(x, column(prediction.mean)[order], color="C0", linewidth=2.0, label="mean")
    if points is not None:
        style = {"s": 12.0, "color": ink(ax), "alpha": 0.8, "linewidths": 0.0}
        ax.scatter(*points, label="data", zorder=3.0, **style)
    is_classifier = isinstance(prediction.distribution, CLASSIFIERS)
    describe(ax, x="x", y="probability" if is_classifier else "y")
    draw_legend(ax)
    return ax


def _check_functions(functions, num_samples):
    arrays.check_integer("functions", functions, least=0)
    if functions > num_samples:
        raise ValueError(
            f"There are {num_samples} functions to draw, one for each sample of the "
            f"prediction. Received: functions={functions}"
        )


def _column(prediction, count, output):
    """Returns a function from arrays `[..., n, outputs]` to one output, `[..., n]`."""
    shape = prediction.mean.shape
    if len(shape) > 2 or shape[0] != count:
        raise ValueError(
            "Expected a prediction of the shape [n] or [n, outputs] for n inputs x. "
            f"Received: {count} inputs and a prediction of shape {shape}"
        )
    outputs = shape[1] if len(shape) == 2 else 1
    if output is None and outputs > 1:
        raise ValueError(
            f"The model has {outputs} outputs: say which by `output=0`, ... "
            "Received: output=None"
        )
    index = 0 if output is None else output
    arrays.check_integer("output", index, least=0)
    if index >= outputs:
        raise ValueError(
            f"`output` should be below {outputs}, the number of outputs. "
            f"Received: output={output}"
        )
    return lambda values: values[..., index] if len(shape) == 2 else values


def _functions(prediction):
    """The means of the draws, `[num_samples, n, ...]`; of classes the probabilities."""
    distribution = prediction.distribution
    if isinstance(distribution, CLASSIFIERS):
        return ops.convert_to_numpy(distribution.probs)
    return ops.convert_to_numpy(distribution.mean())


def _points(data, prediction, output):
    """The data as numbers on both axes."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise ValueError(
            f"`data` should be a pair (x, y). Received: {type(data).__name__}"
        )
    x, y = arrays.one_column("x of data", data[0]), arrays.to_array(data[1])
    if y.ndim == 2 and y.shape[1] > 1 and y.shape[1:] == prediction.mean.shape[1:]:
        y = y[:, output]
    elif isinstance(prediction.distribution, (Categorical, OneHotCategorical)):
        y = arrays.one_column("y of data", y) == output
    y = arrays.one_column("y of data", y)
    if len(x) != len(y):
        raise ValueError(
            f"`data` should have as many x as y. Received: {len(x)} x and {len(y)} y"
        )
    return x, y


def _draw_bands(ax, x, bands, probabilities, name, **style):
    percents = ", ".join(f"{100.0 * p:.4g}%" for p in probabilities[::-1])
    for number, (low, high) in enumerate(bands):
        # Narrower ones are darker than any patch in a legend: all have one entry.
        label = f"{percents} of {name}" if number == 0 else None
        ax.fill_between(x, low, high, label=label, linewidth=0.0, **style)


def _draw_functions(ax, x, values, count):
    chosen = np.arange(count) * len(values) // max(count, 1)
    for number, function in enumerate(values[chosen]):
        label = "functions" if number == 0 else None
        ax.plot(x, function, color="C1", linewidth=0.7, alpha=0.6, label=label)
