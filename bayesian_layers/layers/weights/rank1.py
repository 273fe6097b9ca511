"""Rank-1 networks: distributions over factors of rank one of a shared kernel."""

import keras

from bayesian_layers import initializers, regularizers
from bayesian_layers.distributions import Cauchy, Laplace, Logistic, Normal
from bayesian_layers.initializers import Posterior
from bayesian_layers.layers.weights.cells import RandomCell
from bayesian_layers.layers.weights.members import (
    ENSEMBLE_SIZE,
    Members,
    MembersOfCell,
)
from bayesian_layers.layers.weights.twins import twin

_POSTERIORS = (Normal, Cauchy, Laplace, Logistic)
_INITIALIZER = (
    "The distribution over the factors of {0}, `[ensemble_size, {0}]`: "
    '`"trainable_normal"` (the default), `"trainable_cauchy"`, or another with a '
    "location and a scale for each element. Unless it says otherwise the locations "
    "start as normal numbers around 1 with a standard deviation of 0.5, or at 1 for "
    "one member; for additive ones around 0, with 0.1."
)
_REGULARIZER = (
    'The KL of that distribution from a prior. Defaults to `"auto"`: a prior of its '
    "own family around 1 (additive: 0) with a scale of 0.5, as wide as the members "
    "start."
)


class Rank1(Members):
    """A kernel times an outer product of random factors.

    f_m(x) = activation(product(x * alpha, kernel) * gamma + bias_m), with
    alpha ~ q(alpha_m) over input features and gamma ~ q(gamma_m) over output features;
    with `additive=True` both are added instead. The kernel is one value. There are
    `ensemble_size` components m: the posterior is a mixture with equal weights. Its
    divergence from the prior is at most the mean over m of the divergences of the
    components, and that mean is what is in `losses`: with the batch split over members
    the loss is a bound of the evidence.

    A call draws factors for each example. How examples are assigned to members, in
    training and in `bl.predict`, is said at `bl.layers.Members`; each draw of
    `bl.predict` draws factors of its member, for all examples.

    Reference: Dusenberry et al. (2020), Efficient and scalable Bayesian neural nets
    with rank-1 factors.
    """

    is_estimator = True
    own_arguments = {
        "ensemble_size": ENSEMBLE_SIZE,
        "additive": (False, "Whether the factors are added, not multiplied."),
        "alpha_initializer": ("trainable_normal", _INITIALIZER.format("inputs")),
        "gamma_initializer": ("trainable_normal", _INITIALIZER.format("outputs")),
        "alpha_regularizer": ("auto", _REGULARIZER),
        "gamma_regularizer": ("auto", _REGULARIZER),
    }

    def __init__(
        self,
        *args,
        additive=False,
        alpha_initializer="trainable_normal",
        gamma_initializer="trainable_normal",
        alpha_regularizer="auto",
        gamma_regularizer="auto",
        **kwargs,
    ):
        given = {"alpha": alpha_initializer, "gamma": gamma_initializer}
        penalties = {"alpha": alpha_regularizer, "gamma": gamma_regularizer}
        entries = {"additive": bool(additive)}
        for kind, initializer in given.items():
            initializer = initializers.get(initializer)
            if not isinstance(initializer, Posterior):
                raise ValueError(
                    f"`{kind}_initializer` of {type(self).__name__} should be a "
                    'distribution such as "trainable_normal"; BatchEnsemble has '
                    f"factors that are numbers. Received: {given[kind]!r}"
                )
            penalty = penalties[kind]
            if penalty != "auto":
                penalty = regularizers.get(penalty)
                regularizers.check(penalty, kind)
            entries[f"{kind}_initializer"] = initializer
            entries[f"{kind}_regularizer"] = penalty
        vars(self).update(entries)
        super().__init__(*args, **kwargs)

    def add_factors(self, name, kind, size):
        """Makes the distribution of the factors of a name."""
        posterior = getattr(self, f"{kind}_initializer").with_default(self.start())
        penalty = getattr(self, f"{kind}_regularizer")
        if penalty == "auto":
            penalty = _penalty_of(posterior, 0.0 if self.additive else 1.0)
        if penalty is not None:
            penalty = MeanOverMembers(penalty, self.ensemble_size)
        return self.add_weight(
            (self.ensemble_size, size), posterior, name=name, regularizer=penalty
        )

    def _check_posterior(self, weight):
        is_factor = weight.name.endswith(("alpha", "gamma"))
        if is_factor and not isinstance(weight.posterior, _POSTERIORS):
            raise ValueError(
                f"{type(self).__name__} needs factors with a location and a scale for "
                f"each element. Received: a posterior of "
                f"{type(weight.posterior).__name__} for {weight.name!r}."
            )

    def of_examples(self, name, assignment):
        """Returns a draw of the factors of each example."""
        weight = self.random_weights[name]
        if weight.is_wanted():
            return assignment @ weight.draw()
        posterior = weight.posterior
        parameters = {
            "loc": assignment @ posterior.loc,
            "scale": assignment @ posterior.scale,
        }
        of_each = type(posterior).rebuild(parameters)
        return weight.draw(of_each)

    def of_member(self, name, member):
        """Returns a draw of the factors of a member."""
        return member @ self.random_weights[name].draw()

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        names = [
            f"{kind}_{role}"
            for kind in ("alpha", "gamma")
            for role in ("initializer", "regularizer")
        ]
        own = {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in names
        }
        return {**super().get_config(), "additive": self.additive, **own}


class MeanOverMembers:
    """A penalty on the factors of all members, divided by their number.

    Args:
        regularizer: The penalty on the sum.
        size: The number of members.
    """

    def __init__(self, regularizer, size):
        self.regularizer = regularizer
        self.size = size
        self.scale_factor = getattr(regularizer, "scale_factor", 1.0)

    def prior_of(self, weight):
        """Returns the prior of a random variable, or `None`."""
        if not hasattr(self.regularizer, "prior_of"):
            return None
        return self.regularizer.prior_of(weight)

    def bind(self, add_weight):
        """Returns the penalty for one weight of one layer."""
        if not hasattr(self.regularizer, "bind"):
            return self
        return MeanOverMembers(self.regularizer.bind(add_weight), self.size)

    def __call__(self, weight):
        """Returns the penalty on a random variable, a scalar."""
        return self.regularizer(weight) / self.size


def _penalty_of(posterior, centre):
    """The divergence from a prior of the family of a posterior."""
    if isinstance(posterior, initializers.TrainableCauchy):
        return regularizers.CauchyKLDivergence(centre, 0.5)
    return regularizers.NormalKLDivergence(centre, 0.5)


@twin
class DenseRank1(Rank1, keras.layers.Dense):
    """`keras.layers.Dense` with random factors of rank one of its kernel.

    See `bl.layers.Rank1`.

    Example:
    >>> layer = bl.layers.DenseRank1(4, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@twin
class Conv1DRank1(Rank1, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with random factors of rank one of its kernel.

    See `bl.layers.Rank1`.

    Example:
    >>> layer = bl.layers.Conv1DRank1(4, 3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 3))))
    (8, 4, 4)
    """


@twin
class Conv2DRank1(Rank1, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with random factors of rank one of its kernel.

    See `bl.layers.Rank1`.

    Example:
    >>> layer = bl.layers.Conv2DRank1(4, 3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 6, 3))))
    (8, 4, 4, 4)
    """


@twin
class DepthwiseConv2DRank1(Rank1, keras.layers.DepthwiseConv2D):
    """`keras.layers.DepthwiseConv2D` with random factors of rank one of its kernel.

    See `bl.layers.Rank1`.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DRank1(3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 6, 3))))
    (8, 4, 4, 3)
    """


@twin
class LSTMCellRank1(MembersOfCell, RandomCell, Rank1, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with random factors of rank one of its kernels.

    Both kernels have factors, `alpha` and `gamma`, `recurrent_alpha` and
    `recurrent_gamma`; one member, and one draw, serves an example for a whole sequence.
    See `bl.layers.Rank1`.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.LSTMCellRank1(4, ensemble_size=2))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """
