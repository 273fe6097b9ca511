"""Laplace's approximation of the posterior of a linear layer's weights."""

from keras import ops

from bayesian_layers import backend, linalg
from bayesian_layers.distributions import MultivariateNormalTriL
from bayesian_layers.random_weights import RandomWeight
from bayesian_layers.regularizers import NormalKLDivergence

LIKELIHOODS = ("bernoulli", "categorical", "gaussian")


def curvature(likelihood, logits, noise_variance=None):
    """The second derivatives of -log p(y | f) by each f, at f = logits.

    They do not depend on y. For classes these are the diagonal ones: p_k (1 - p_k).

    Args:
        likelihood: One of `LIKELIHOODS`.
        logits: Values of the functions, `[..., units]`.
        noise_variance: That of the Gaussian likelihood.

    Returns:
        A tensor `[..., units]`; for the Gaussian likelihood, where all are the same,
        `[..., 1]`.
    """
    if likelihood == "bernoulli":
        return ops.sigmoid(logits) * ops.sigmoid(-logits)
    if likelihood == "categorical":
        probs = ops.softmax(logits, axis=-1)
        return probs * (1.0 - probs)
    return ops.full_like(logits[..., :1], 1.0 / noise_variance)


def information(features, weights):
    """sum_n weights_n features_n features_n^T, for each column of the weights.

    Args:
        features: Of shape `[n, F]`.
        weights: Of shape `[n, u]`.

    Returns:
        A tensor of shape `[u, F, F]`.
    """
    weighted = ops.transpose(weights)[:, :, None] * features
    return ops.matmul(ops.swapaxes(weighted, -1, -2), features)


def covariance_factor(information, ridge):
    """The lower triangular T with T T^T = (information + ridge I)^-1.

    The inverse is never factorized: with the order of rows and columns reversed, the
    Cholesky factor of the precision is upper triangular in the old order, and the
    transpose of its inverse is T.

    Args:
        information: Symmetric, `[..., F, F]`.
        ridge: A positive number.
    """
    size, axes = information.shape[-1], (-2, -1)
    identity = ops.eye(size, dtype=information.dtype)
    tril = linalg.cholesky(ops.flip(information + ridge * identity, axis=axes))
    inverse = linalg.solve_lower(tril, identity)
    return ops.swapaxes(ops.flip(inverse, axis=axes), -1, -2)


compiled_covariance_factor = backend.compile_inference(covariance_factor)


class LaplaceWeight(RandomWeight):
    """The weights of a linear layer, known by their mode and the curvature there.

    The location is trained as the weight of an ordinary layer; `kl()` is the penalty
    that makes it the mode of the posterior: -log p of the prior, Normal(0, 1 /
    sqrt(ridge)), up to a constant. The covariance is the layer's.

    Args:
        layer: A layer with `current_factor()`, which returns the lower triangular
            factor of the covariance of each row.
        name: The name of the weight.
        location: Its variable, `[units, F]`: rows are independent.
        ridge: The precision of the prior.
    """

    def __init__(self, layer, name, location, ridge):
        prior = NormalKLDivergence(stddev=ridge**-0.5)
        super().__init__(layer, name, None, {"loc": location}, {}, {}, prior)
        self._ridge = ridge

    @property
    def location(self):
        """The Keras variable that the layer calls by the weight's name."""
        return self.variables["loc"]

    @property
    def posterior(self):
        """The distribution: the mode as it is now, with the covariance."""
        loc = ops.convert_to_tensor(self.location)
        return MultivariateNormalTriL.rebuild(
            {"loc": loc, "scale_tril": self.layer.current_factor()}
        )

    @property
    def prior(self):
        """The prior, of each element."""
        return self.regularizer.prior

    def kl(self):
        """Returns ridge / 2 times the sum of the squares of the location."""
        return 0.5 * self._ridge * ops.sum(ops.square(self.location))
