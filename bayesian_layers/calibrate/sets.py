"""Split conformal sets, for outputs that are classes."""

import numpy as np

from bayesian_layers.calibrate.calibrator import register
from bayesian_layers.calibrate.conformal import Conformal
from bayesian_layers.calibrate.targets import (
    class_labels,
    is_binary,
    with_both_classes,
)


class Sets(Conformal):
    """Base of conformal sets: the classes with a score of at most the threshold.

    A subclass writes `_class_scores(probs, noise)`, from probabilities `[n, classes]`
    to scores of that shape, by a generator of random numbers; and `sets`.
    """

    def __init__(
        self,
        model=None,
        coverage=0.9,
        *,
        from_logits=None,
        num_samples=None,
        seed=None,
    ):
        super().__init__(model, coverage, num_samples=num_samples, seed=seed)
        self.from_logits = from_logits

    def get_config(self):
        """Returns the constructor's arguments but the model, and what was fitted."""
        return {**super().get_config(), "from_logits": self.from_logits}

    def _scores(self, prediction, y):
        probs = _class_probs(prediction)
        labels = class_labels(y, prediction).reshape(-1, 1)
        scores = self._class_scores(probs, _noise(self.seed, 0))
        return np.take_along_axis(scores, labels, axis=1)[:, 0]

    def _sets(self, prediction, seed):
        scores = self._class_scores(_class_probs(prediction), _noise(seed, 1))
        return scores <= self.threshold

    def _class_scores(self, probs, noise):
        raise NotImplementedError


@register
class ConformalSets(Sets):
    """Sets of the probable classes, that hold the true one with a guaranteed coverage.

    {k: 1 - p_k(x) <= t}, for t the conformal quantile of 1 - p_y(x), one minus the
    probability of the true class, of n held-out examples. If these and a new one are
    exchangeable, its set holds its class with a probability

        coverage <= P <= coverage + 1 / (n + 1),

    the upper bound where no two scores are equal; whatever the model, and on average
    over x. Of all sets with that coverage these are the smallest on average, if the
    probabilities are right. A set may be empty: the example is unlike those held out.

    For any Keras model with one output of classes: plain, with a head, or Bayesian.
    The probabilities are averaged over draws.

    Args:
        model: A model, or several, as in `bl.predict`. Without one, a `bl.Prediction`
            is given in the place of x.
        coverage: The probability to hold the truth, between 0 and 1.
        from_logits: As in `bl.predict`: for plain outputs `True` if these are logits,
            `False` if they are probabilities.
        num_samples: The number of draws of the weights of a Bayesian model. Defaults
            to that of `bl.predict`, and to one if nothing is random.
        seed: Integer: which draws. They are the same for held-out and for new data.
            Defaults to a random one.

    Example:
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(99, 2)), rng.integers(3, size=99)
    >>> conformal = bl.calibrate.ConformalSets(model, coverage=0.9, from_logits=True)
    >>> conformal.fit(x, y, verbose=0).sets(x[:4], verbose=0).shape
    (4, 3)

    Reference:
        Sadinle, Lei and Wasserman 2019, Least Ambiguous Set-Valued Classifiers with
        Bounded Error Levels.
    """

    def sets(self, x, batch_size=32, verbose="auto"):
        """Returns sets that hold the classes of new data.

        Args:
            x: Inputs, as in `bl.predict`, or their `bl.Prediction`.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.

        Returns:
            An array `[examples, classes]` of booleans: whether a class is in the set.
        """
        return self._sets(self._predict_new(x, batch_size, verbose), self.seed)

    def _class_scores(self, probs, noise):
        return 1.0 - probs


@register
class ConformalAdaptiveSets(Sets):
    """Sets that grow with the ambiguity of an example, with a guaranteed coverage.

    Classes are taken from the most probable on, until their probabilities sum up to t,

        {k: sum(p_j(x) for j more probable than k) + u p_k(x) <= t},

    for t the conformal quantile of that score of the true class of held-out examples,
    and u a random number between 0 and 1, one for each example. The guarantee is that
    of `bl.calibrate.ConformalSets`. The sets are larger on average, but the coverage is
    more even over x: it is the same for each x, if the probabilities are right. It
    takes the random u for that; a set may be empty by chance.

    Arguments as in `bl.calibrate.ConformalSets`.

    Example:
    >>> model = keras.Sequential([keras.Input((2,)), bl.layers.Categorical(3)])
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(99, 2)), rng.integers(3, size=99)
    >>> conformal = bl.calibrate.ConformalAdaptiveSets(model, coverage=0.9, seed=1)
    >>> conformal.fit(x, y, verbose=0).sets(x[:4], seed=2, verbose=0).shape
    (4, 3)

    Reference:
        Romano, Sesia and Candes 2020, Classification with Valid and Adaptive Coverage.
    """

    def sets(self, x, batch_size=32, verbose="auto", *, seed=None):
        """Returns sets that hold the classes of new data.

        Args:
            x: Inputs, as in `bl.predict`, or their `bl.Prediction`.
            batch_size: As in `bl.predict`.
            verbose: As in `bl.predict`.
            seed: Integer: which random numbers u. Give each call its own. Defaults to
                a random one, which `keras.utils.set_random_seed` sets.

        Returns:
            An array `[examples, classes]` of booleans: whether a class is in the set.
        """
        seed = np.random.randint(2**31) if seed is None else seed
        return self._sets(self._predict_new(x, batch_size, verbose), seed)

    def _class_scores(self, probs, noise):
        u = noise.random((len(probs), 1))
        order = np.argsort(-probs, axis=1, kind="stable")
        ranked = np.take_along_axis(probs, order, axis=1)
        scores = np.empty_like(probs)
        sums = np.cumsum(ranked, axis=1) - ranked + u * ranked
        np.put_along_axis(scores, order, sums, axis=1)
        return scores


def _noise(seed, stream):
    """A generator of random numbers; those of different streams are independent."""
    return np.random.default_rng([int(seed) % 2**64, stream])


def _class_probs(prediction):
    """The probabilities of the classes, `[n, classes]`."""
    probs, given = prediction.probs.astype("float64"), prediction.probs.shape
    binary = is_binary(prediction)
    if len(given) != 2 or (binary and given[1] != 1):
        raise ValueError(
            "Expected a classifier with one output of classes: probabilities of shape "
            "[examples, classes], or [examples, 1] for 0 or 1. "
            f"Received: shape {given}"
        )
    if not np.all(np.isfinite(probs)):
        raise ValueError(
            "Expected finite predictions. Received: probabilities with "
            f"{np.sum(~np.isfinite(probs))} numbers that are not."
        )
    return with_both_classes(probs[:, 0]) if binary else probs
