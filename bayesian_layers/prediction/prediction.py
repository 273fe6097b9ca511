"""What a model predicts, with its uncertainty."""

import functools
from collections.abc import Sequence

import numpy as np
from keras import ops

from bayesian_layers.distributions import Deterministic, Distribution
from bayesian_layers.losses.alignment import align
from bayesian_layers.prediction.moments import CLASSIFIERS, Moments
from bayesian_layers.prediction.quantiles import mixture_quantile

# Of large arrays so much is computed with at a time.
BLOCK_BYTES = 2**24


class Prediction:
    """The predictive distribution of a model, from draws of its weights.

    Each draw of the weights is one function; what it predicts is a distribution if the
    model ends with a stochastic output layer, and a number if not. The prediction is
    their mixture. All attributes are NumPy arrays, with one row for each example.

    Args:
        moments: The moments over draws.
        distribution: The distributions of all draws, if they were stored.
        seed: Integer seed of the `samples`.

    Attributes:
        num_samples: The number of draws.
        family: The class of the distributions; `Deterministic` for plain outputs.
        is_classifier: Whether they are distributions over classes.
        mean: The predictive mean `[examples, ...]`; of classifiers the `probs`.
        stddev: The predictive standard deviation.
        epistemic: The variance of the means of the draws: what more data would
            remove. Of classifiers the mutual information of class and weights, in
            nats.
        aleatoric: The mean of the variances of the draws: the noise in the data, 0
            where the model has none. `stddev**2 == epistemic + aleatoric`. Of
            classifiers the expected entropy, in nats: `entropy == epistemic +
            aleatoric`.
        samples: One value for each draw, `[num_samples, examples, ...]`: the output,
            or a draw from the output's distribution.
        probs: Class probabilities, averaged over draws.
        entropy: The entropy of the `probs`, in nats.
        mutual_information: As `epistemic`, of classifiers.
        distribution: The distributions of all draws, with batch axes `[num_samples,
            examples, ...]`.
    """

    def __init__(
        self,
        moments: Moments,
        distribution: Distribution | None = None,
        seed: int = 0,
    ):
        self._moments = moments
        self.family = moments.family
        self._distribution = distribution
        self.seed = seed

    def __repr__(self):
        family = self.family.__name__
        return (
            f"<Prediction of {len(self.mean)} examples, {self.num_samples} samples of "
            f"{'values' if family == 'Deterministic' else family}>"
        )

    @property
    def num_samples(self) -> int:
        return self._moments.count

    @property
    def distribution(self) -> Distribution:
        if self._distribution is None:
            raise ValueError(
                "This needs the samples, which were not kept. Predict with "
                "`store_samples=True`. Received: store_samples=False"
            )
        return self._distribution

    @property
    def is_classifier(self) -> bool:
        return issubclass(self.family, CLASSIFIERS)

    def _check_classifier(self, name):
        if not self.is_classifier:
            raise ValueError(
                f"`{name}` is for classifiers: models with a head such as "
                "`bl.layers.Categorical`, or with plain outputs that "
                "`bl.predict(..., from_logits=True)` takes for logits, or "
                "`from_logits=False` for probabilities. Received: from_logits=None and "
                f"outputs of type {self.family.__name__}"
            )

    # Moments.

    @property
    def mean(self) -> np.ndarray:
        return self._moments.mean

    @property
    def stddev(self) -> np.ndarray:
        if self.is_classifier:
            return np.sqrt(self.probs * (1.0 - self.probs))
        return np.sqrt(self.epistemic + self.aleatoric)

    @property
    def epistemic(self) -> np.ndarray:
        if self.is_classifier:
            return self.mutual_information
        return self._moments.variance_of_means

    @property
    def aleatoric(self) -> np.ndarray:
        if self.is_classifier:
            return self._moments.mean_of_entropies
        return self._moments.mean_of_variances

    # Classes.

    @property
    def probs(self) -> np.ndarray:
        self._check_classifier("probs")
        return self._moments.mean

    @functools.cached_property
    def entropy(self) -> np.ndarray:
        self._check_classifier("entropy")
        rows = max(1, BLOCK_BYTES * len(self.probs) // max(1, self.probs.nbytes))
        blocks = [
            ops.convert_to_numpy(self.family(probs=block).entropy())
            for block in np.split(self.probs, range(rows, len(self.probs), rows))
        ]
        return np.concatenate(blocks)

    @property
    def mutual_information(self) -> np.ndarray:
        self._check_classifier("mutual_information")
        return np.maximum(self.entropy - self._moments.mean_of_entropies, 0.0)

    # Samples.

    @functools.cached_property
    def samples(self) -> np.ndarray:
        return ops.convert_to_numpy(self.distribution.sample(seed=self.seed))

    def quantile(self, q: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """Returns the quantiles of the predictive distribution, `[examples, ...]`.

        Of continuous outputs with a distribution function they are those of the
        mixture over draws; of counts, classes and vectors, and of plain outputs, those
        of the `samples`.

        Args:
            q: A number between 0 and 1, or an array of such: then its axes come first.
        """
        probabilities = np.asarray(q, "float64")
        if not np.all((probabilities >= 0.0) & (probabilities <= 1.0)):
            raise ValueError(f"`q` should be between 0 and 1. Received: q={q}")
        quantiles = [
            mixture_quantile(self.distribution, float(p), lambda: self.samples)
            for p in probabilities.ravel()
        ]
        shape = quantiles[0].shape if quantiles else self.mean.shape
        return np.reshape(quantiles, (*probabilities.shape, *shape))

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ends of the central interval of a given probability.

        Args:
            probability: A number between 0 and 1.
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(
                "`probability` should be between 0 and 1. "
                f"Received: probability={probability}"
            )
        tail = 0.5 * (1.0 - probability)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """Returns log p(y) of each example: of the likelihood, averaged over draws.

        Args:
            y: Targets `[examples, ...]`. As in `bl.losses.NegativeLogLikelihood` the
                log-probability is summed over all axes but that of the examples.
        """
        if issubclass(self.family, Deterministic):
            raise ValueError(
                "`log_prob` needs a distribution over outputs: a model with a head "
                "such as `bl.layers.Normal`, or `from_logits` for a classifier. "
                "Received: a model with plain outputs and from_logits=None"
            )
        distribution = self.distribution
        y = align(y, distribution.shape()[1:])
        values = distribution.log_prob(ops.expand_dims(y, axis=0))
        values = ops.sum(values, axis=tuple(range(2, len(values.shape))))
        values = ops.convert_to_numpy(ops.logsumexp(values, axis=0))
        return values - np.log(self.num_samples)
