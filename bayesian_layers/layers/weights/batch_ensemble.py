"""BatchEnsemble: members that differ by factors of rank one."""

import keras
from keras import ops

from bayesian_layers import initializers
from bayesian_layers.layers.weights.cells import RandomCell
from bayesian_layers.layers.weights.members import (
    ENSEMBLE_SIZE,
    Members,
    MembersOfCell,
)
from bayesian_layers.layers.weights.twins import twin
from bayesian_layers.random_weights import RandomWeights


class BatchEnsemble(Members):
    """An ensemble of layers that share a kernel, and differ by trained factors.

    f_m(x) = activation(product(x * alpha_m, kernel) * gamma_m + bias_m)

    What is uncertain is which member it is. There is no prior and no divergence: it is
    trained as a deterministic layer is. How examples are assigned to members, in
    training and in `bl.predict`, is said at `bl.layers.Members`.

    Reference: Wen, Tran and Ba (2020), BatchEnsemble: an alternative approach to
    efficient ensemble and lifelong learning.
    """

    is_estimator = True
    own_arguments = {
        "ensemble_size": ENSEMBLE_SIZE,
        "alpha_initializer": (
            None,
            "Initializer of the factors of inputs, `[ensemble_size, inputs]`. Defaults "
            "to normal numbers around 1 with a standard deviation of 0.5; to 1 for one "
            "member.",
        ),
        "gamma_initializer": (
            None,
            "Initializer of the factors of outputs, `[ensemble_size, outputs]`. As "
            "`alpha_initializer`.",
        ),
    }

    def __init__(self, *args, alpha_initializer=None, gamma_initializer=None, **kwargs):
        vars(self).update(
            alpha_initializer=initializers.get(alpha_initializer),
            gamma_initializer=initializers.get(gamma_initializer),
        )
        super().__init__(*args, **kwargs)

    def add_factors(self, name, kind, size):
        """Makes the variable of the factors of a name."""
        initializer = getattr(self, f"{kind}_initializer")
        if isinstance(initializer, initializers.Posterior):
            raise ValueError(
                f"The factors of {type(self).__name__} are trained numbers. Received: "
                f"{kind}_initializer={initializer}. Use Rank1 for distributions."
            )
        # Not by our own `add_weight`: a deterministic layer does not have them.
        return super(RandomWeights, self).add_weight(
            name=name,
            shape=(self.ensemble_size, size),
            initializer=self.start() if initializer is None else initializer,
            dtype="float32",
            autocast=False,
        )

    def of_examples(self, name, assignment):
        """Returns the factors of examples."""
        return assignment @ ops.convert_to_tensor(getattr(self, name))

    of_member = of_examples

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        names = ("alpha_initializer", "gamma_initializer")
        own = {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in names
        }
        return {**super().get_config(), **own}


@twin
class DenseBatchEnsemble(BatchEnsemble, keras.layers.Dense):
    """`keras.layers.Dense` as an ensemble whose members share a kernel.

    See `bl.layers.BatchEnsemble`.

    Example:
    >>> layer = bl.layers.DenseBatchEnsemble(4, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 3))))
    (8, 4)
    """


@twin
class Conv1DBatchEnsemble(BatchEnsemble, keras.layers.Conv1D):
    """`keras.layers.Conv1D` as an ensemble whose members share a kernel.

    See `bl.layers.BatchEnsemble`.

    Example:
    >>> layer = bl.layers.Conv1DBatchEnsemble(4, 3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 3))))
    (8, 4, 4)
    """


@twin
class Conv2DBatchEnsemble(BatchEnsemble, keras.layers.Conv2D):
    """`keras.layers.Conv2D` as an ensemble whose members share a kernel.

    See `bl.layers.BatchEnsemble`.

    Example:
    >>> layer = bl.layers.Conv2DBatchEnsemble(4, 3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 6, 3))))
    (8, 4, 4, 4)
    """


@twin
class DepthwiseConv2DBatchEnsemble(BatchEnsemble, keras.layers.DepthwiseConv2D):
    """`keras.layers.DepthwiseConv2D` as an ensemble whose members share a kernel.

    See `bl.layers.BatchEnsemble`.

    Example:
    >>> layer = bl.layers.DepthwiseConv2DBatchEnsemble(3, ensemble_size=2)
    >>> ops.shape(layer(np.ones((8, 6, 6, 3))))
    (8, 4, 4, 3)
    """


@twin
class LSTMCellBatchEnsemble(
    MembersOfCell, RandomCell, BatchEnsemble, keras.layers.LSTMCell
):
    """`keras.layers.LSTMCell` as an ensemble whose members share their kernels.

    Both kernels have factors, `alpha` and `gamma`, `recurrent_alpha` and
    `recurrent_gamma`; one member, and one draw, serves an example for a whole sequence.
    See `bl.layers.BatchEnsemble`.

    Example:
    >>> rnn = keras.layers.RNN(bl.layers.LSTMCellBatchEnsemble(4, ensemble_size=2))
    >>> ops.shape(rnn(np.ones((8, 5, 3))))
    (8, 4)
    """
