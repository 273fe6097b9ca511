"""Ensembles whose members share a kernel: rank-one factors, and who sees what."""

import keras
from keras import ops

from bayesian_layers import initializers
from bayesian_layers.distributions import OneHotCategorical
from bayesian_layers.initializers import Posterior
from bayesian_layers.layers.weights.twins import Twin
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.random_weight import RandomWeight
from bayesian_layers.random_weights.substitution import (
    call_with,
    without_bias_and_activation,
)

ENSEMBLE_SIZE = (
    4,
    "The number of members. Defaults to 4. Example n of a batch is seen by member n "
    "modulo that number.",
)


class Member(RandomWeight):
    """Which member of an ensemble a layer is, as a one-hot vector.

    All layers of a model have to be the same member. So it is not drawn by the seed of
    a position in the model: a seed is the number of a member, modulo their number
    (`of_index`). The mean of the vector makes the mean over members of a factor.

    Args:
        layer: The layer.
        size: The number of members.
    """

    def __init__(self, layer, size):
        super().__init__(layer, "member", None, {}, {}, {})
        self.size = size

    @property
    def posterior(self):
        """Each member has the same probability."""
        probs = ops.full((self.size,), 1.0 / self.size, dtype="float32")
        return OneHotCategorical.rebuild(
            {"logits": None, "probs": probs, "dtype": "float32"}
        )

    @property
    def location(self):
        """There is no variable."""
        return None

    def of_index(self, index):
        """Returns the vector of the member of a number, which may be a tensor."""
        index = ops.mod(ops.convert_to_tensor(index), self.size)
        return ops.one_hot(index, self.size, dtype="float32")


class Members(Twin, RandomWeights):
    """Base of the estimators of ensembles whose members share a kernel.

    f_m(x) = activation(product(x * alpha_m, kernel) * gamma_m + bias_m): member m has
    the kernel times the outer product of its factors alpha_m, over input features, and
    gamma_m, over output features. That costs no further product with a kernel, and
    `inputs + outputs` numbers for each member and kernel.

    In a call example n of the batch is seen by member n modulo `ensemble_size`, in
    training and elsewhere: the batch is split. Since `fit` shuffles, each member comes
    to see all examples. To have each example seen by all members, repeat it:
    `np.repeat(x, ensemble_size, axis=0)` and the same of y.

    `bl.predict` uses one member for all examples in each draw, in turn: draw i is
    member i modulo `ensemble_size`, so that as many draws as there are members, or a
    multiple of that, make the ensemble. `bl.weights(model, seed=i)` holds member i.
    Within `bl.weights(model, "mean")` factors and biases are their means over members,
    which is none of the members.

    A subclass writes `add_factors`, `of_examples` and `of_member`.
    """

    known_weights = ("bias", "kernel", "depthwise", "recurrent")
    additive = False

    def __init__(self, *args, ensemble_size=4, **kwargs):
        if not isinstance(ensemble_size, int) or ensemble_size < 1:
            raise ValueError(
                "`ensemble_size` should be a positive integer. "
                f"Received: ensemble_size={ensemble_size!r}"
            )
        # Before the layer's own, which may build it.
        vars(self)["ensemble_size"] = ensemble_size
        super().__init__(*args, **kwargs)

    def _is_random_by_default(self, name, dtype, kwargs):
        return False

    # What a subclass writes.

    def add_factors(self, name, start, size):
        """Makes the factors `[ensemble_size, size]` of a name."""
        raise NotImplementedError

    def of_examples(self, name, assignment):
        """Returns the factors of examples, given their members, one-hot `[n, m]`."""
        raise NotImplementedError

    def of_member(self, name, member):
        """Returns the factors of one member for all examples, `[1, size]`."""
        raise NotImplementedError

    # Making weights.

    def add_weight(self, shape=None, initializer=None, *, name=None, **kwargs):
        """Adds a weight; each member has a bias."""
        if name == "bias":
            given, shape = tuple(shape), (self.ensemble_size, *shape)
            if not isinstance(initializer, Posterior):
                initializer = _for_members(initializer, given)
        return super().add_weight(shape, initializer, name=name, **kwargs)

    def build(self, input_shape):
        """Builds the layer, and the factors."""
        super().build(input_shape)
        # What a deterministic layer has ends here.
        known = list(self._layer_weights)
        for prefix, sizes in self._sizes(input_shape).items():
            for factor, size in zip(("alpha", "gamma"), sizes, strict=True):
                variable = self.add_factors(prefix + factor, factor, size)
                setattr(self, prefix + factor, variable)
        self._layer_weights[:] = known
        self.random_weights["member"] = Member(self, self.ensemble_size)

    def _sizes(self, input_shape):
        """The numbers of input and output features of each kernel, by its prefix."""
        outputs = self.compute_output_shape(input_shape)
        axis = self._channel_axis(len(input_shape))
        return {"": (input_shape[axis], outputs[axis])}

    def _channel_axis(self, rank):
        first = getattr(self, "data_format", None) == "channels_first"
        return 1 if first else rank - 1

    def start(self):
        """Returns the initializer of factors, where none is given."""
        neutral = 0.0 if self.additive else 1.0
        if self.ensemble_size == 1:
            return keras.initializers.Constant(neutral)
        # As in the reference code for Wen et al. and Dusenberry et al.: members differ
        # from the start. Added, it is in the units of the inputs.
        return keras.initializers.RandomNormal(neutral, 0.1 if self.additive else 0.5)

    def _assign_known(self, variable, value):
        if len(value.shape) == len(variable.shape) - 1:  # A bias for all members.
            value = ops.broadcast_to(ops.convert_to_tensor(value), variable.shape)
        variable.assign(value)

    # Calling.

    def _assignment(self, count):
        """The members of the examples of a batch, one-hot `[count, ensemble_size]`."""
        index = ops.mod(ops.arange(count, dtype="int32"), self.ensemble_size)
        return ops.one_hot(index, self.ensemble_size, dtype="float32")

    def _factors(self, names, count, bias):
        """The factors and the bias of examples, `[count, size]` or `[1, size]`."""
        member = self.random_weights["member"]
        if member.is_wanted():
            chosen = member.draw()[None]
            factors = {name: self.of_member(name, chosen) for name in names}
        else:
            chosen = self._assignment(count)
            factors = {name: self.of_examples(name, chosen) for name in names}
        if bias is not None:
            bias = chosen @ ops.cast(ops.convert_to_tensor(bias), "float32")
        cast = keras.tree.map_structure(
            lambda value: ops.cast(value, self.compute_dtype), (factors, bias)
        )
        return cast

    def _other_weights(self):
        """Draws of weights that are neither factors nor the member."""
        names = [name for name in ("bias", "kernel") if name in self.random_weights]
        return self.draw_weights(names=names)

    def combine(self, x, factors):
        """Returns x with the factors applied."""
        return x + factors if self.additive else x * factors

    def estimate(self, call, inputs, *args, **kwargs):
        """Returns the outputs of the layer, each example seen by a member."""
        others = self._other_weights()
        bias = others.pop("bias", vars(self).get("bias"))
        factors, bias = self._factors(("alpha", "gamma"), ops.shape(inputs)[0], bias)
        axis = self._channel_axis(len(inputs.shape))
        shape = [1] * len(inputs.shape)
        shape[axis] = -1

        def along(value):
            return ops.reshape(value, (ops.shape(value)[0], *shape[1:]))

        values = {**without_bias_and_activation(self), **others}
        inputs = self.combine(inputs, along(factors["alpha"]))
        outputs = call_with(self, call, (inputs, *args), kwargs, values)
        outputs = self.combine(outputs, along(factors["gamma"]))
        if bias is not None:
            outputs = outputs + along(bias)
        activation = vars(self).get("activation")
        return outputs if activation is None else activation(outputs)

    def get_config(self):
        """Returns the config of the layer, and what is ours."""
        return {**super().get_config(), "ensemble_size": self.ensemble_size}


class MembersOfCell:
    """What a recurrent cell of such an ensemble has.

    It stands before `RandomCell`: factors are drawn once for each sequence, and an
    example has one member for all of it. What a factor changes in a product is added to
    the bias, as the deviations of other estimators: two products more than Keras' own.
    """

    known_weights = ("bias", "kernel", "depthwise", "recurrent")

    def _sizes(self, input_shape):
        columns = 4 * self.units
        return {"": (input_shape[-1], columns), "recurrent_": (self.units, columns)}

    def _draw_sequence(self, inputs):
        names = ("alpha", "gamma", "recurrent_alpha", "recurrent_gamma")
        values = self._other_weights()
        bias = values.pop("bias", self.bias)
        factors, bias = self._factors(names, ops.shape(inputs)[0], bias)
        if bias is not None:
            values["bias"] = bias
        drawn = {
            f"{prefix}kernel": (
                factors[f"{prefix}alpha"],
                factors[f"{prefix}gamma"],
                ops.cast(getattr(self, f"{prefix}kernel"), self.compute_dtype),
            )
            for prefix in ("", "recurrent_")
        }
        return values, drawn

    def deviation(self, drawn, inputs, product):
        """Returns what the factors change in a product with a kernel."""
        alpha, gamma, kernel = drawn
        changed = product(self.combine(inputs, alpha), kernel)
        return self.combine(changed, gamma) - product(inputs, kernel)


def _for_members(initializer, shape):
    """An initializer of a bias for each member, from that of one bias."""
    initializer = initializers.get(initializer)
    if initializer is None:
        initializer = keras.initializers.Zeros()

    def initialize(members_shape, dtype=None):
        bias = initializer(shape, dtype=dtype)
        return ops.broadcast_to(bias, members_shape) + ops.zeros(members_shape, dtype)

    return initialize
