"""Normalizing flows: reversible layers with networks inside."""

from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.conditioned import ConditionedLayer
from bayesian_layers.layers.reversible.elementwise_maps import (
    AdditiveMap,
    AffineMap,
    SplineMap,
)
from bayesian_layers.layers.reversible.made import MADE


def _check_made(layer, network):
    if not isinstance(network, MADE):
        raise TypeError(
            f"{layer} expects a `bl.layers.MADE` as `network`. Received: "
            f"network={network!r}. Ordinary networks belong to couplings, as "
            "`bl.layers.RealNVP`."
        )


@register
class RealNVP(ConditionedLayer):
    """Vectors whose elements are shifted and scaled, by parameters a network computes.

    y = shift(x) + exp(log_scale(x)) x

    With an ordinary network it is a coupling: half of the elements are kept, and shift
    and scale of the others are computed from these; both directions take one run of
    the network. Layers one after another alternate in `parity`. The outputs of the
    network are features, of any number: a linear layer makes the parameters of them,
    which starts at zero, so that the layer starts as the identity.

    With a `bl.layers.MADE` it is autoregressive: each element is shifted and scaled by
    those before it, in the order of the MADE. The layer itself takes one run of the
    network, its reverse as many as there are elements, in one compiled loop. To train
    it by maximum likelihood, which runs the reverse, put it into a
    `bl.layers.Reverse`, or use `bl.layers.MaskedAutoregressiveFlow`.

    The logarithms of scales are kept within 5, by 5 tanh(. / 5).

    Args:
        network: A layer or model from `[..., n]` to `[..., features]`, where n is the
            number of elements that are kept, plus those of the context; or a
            `bl.layers.MADE`.
        parity: Of a coupling: 0 (the default) to keep the first half of the elements, 1
            to keep the second.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> network = keras.Sequential([keras.layers.Dense(16, activation="relu")])
    >>> y = bl.layers.RealNVP(network)(bl.Normal(np.zeros((8, 2), "float32"), 1.0))
    >>> ops.shape(y), ops.shape(y.log_prob(y))
    ((8, 2), (8,))

    Reference: Dinh et al. (2017), Density estimation using Real NVP.
    """

    def __init__(self, network, parity=None, **kwargs):
        super().__init__(network, AffineMap(), parity, **kwargs)


@register
class AdditiveCoupling(ConditionedLayer):
    """Vectors of which half is kept, and the others are shifted: volumes stay.

    y = shift(x) + x, with shifts that a network computes from the half that is kept.
    Arguments and use as of `bl.layers.RealNVP`, also with a `bl.layers.MADE`.

    Args:
        network: A layer or model from `[..., n]` to `[..., features]`, where n is the
            number of elements that are kept, plus those of the context; or a
            `bl.layers.MADE`.
        parity: 0 (the default) to keep the first half of the elements, 1 to keep the
            second.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.AdditiveCoupling(keras.layers.Dense(16, activation="relu"))
    >>> float(layer.log_det_jacobian(np.ones((1, 4), "float32"))[0])
    0.0

    Reference: Dinh et al. (2015), NICE: non-linear independent components estimation.
    """

    def __init__(self, network, parity=None, **kwargs):
        super().__init__(network, AdditiveMap(), parity, **kwargs)


class _SplineLayer(ConditionedLayer):
    def __init__(self, network, num_bins, bound, parity, **kwargs):
        if not isinstance(num_bins, int) or num_bins < 1 or not bound > 0.0:
            raise ValueError(
                f"{type(self).__name__} expects a positive integer `num_bins` and a "
                f"positive `bound`. Received: num_bins={num_bins}, bound={bound}"
            )
        super().__init__(network, SplineMap(num_bins, bound), parity, **kwargs)

    def get_config(self):
        """Returns the constructor's arguments."""
        spline = self.elementwise
        config = {"num_bins": spline.num_bins, "bound": spline.bound}
        return {**super().get_config(), **config}


@register
class SplineCoupling(_SplineLayer):
    """Vectors of which half is kept, and the others mapped by monotone splines.

    The spline is a quotient of quadratic polynomials between `num_bins + 1` knots from
    `-bound` to `bound`, and the identity outside. A network computes knots and slopes
    from the half that is kept; at the start they are those of the identity. Scale data
    to within the bound, by a `bl.layers.Affine` as the last layer.

    Args:
        network: As in `bl.layers.RealNVP`.
        num_bins: The number of pieces. Defaults to 8.
        bound: A positive number. Defaults to 5.
        parity: 0 (the default) to keep the first half of the elements, 1 to keep the
            second.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.SplineCoupling(keras.layers.Dense(16, activation="relu"))
    >>> y = layer(bl.Normal(np.zeros((8, 2), "float32"), 1.0))
    >>> ops.shape(y.log_prob(y))
    (8,)

    Reference: Durkan et al. (2019), Neural spline flows.
    """

    def __init__(self, network, num_bins=8, bound=5.0, parity=None, **kwargs):
        super().__init__(network, num_bins, bound, parity, **kwargs)


class _Autoregressive:
    """What is common to layers that take a MADE only."""

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["parity"]
        return config


@register
class InverseAutoregressiveFlow(_Autoregressive, ConditionedLayer):
    """Vectors whose elements are shifted and scaled by the earlier *inputs*.

    y_i = shift(x_<i) + exp(log_scale(x_<i)) x_i

    A draw takes one run of the network, the density of a given value as many as there
    are elements: for approximate posteriors, whose densities are asked of their own
    draws only. The same as `bl.layers.RealNVP` with a MADE.

    Args:
        network: A `bl.layers.MADE`.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> flow = bl.layers.InverseAutoregressiveFlow(bl.layers.MADE(hidden_dims=[16]))
    >>> y = flow(bl.Normal(np.zeros((8, 3), "float32"), 1.0))
    >>> ops.shape(y.log_prob(y))
    (8,)

    Reference: Kingma et al. (2016), Improved variational inference with inverse
    autoregressive flow.
    """

    def __init__(self, network, **kwargs):
        _check_made("InverseAutoregressiveFlow", network)
        super().__init__(network, AffineMap(), **kwargs)


@register
class MaskedAutoregressiveFlow(_Autoregressive, ConditionedLayer):
    """Vectors whose elements are shifted and scaled by the earlier *outputs*.

    y_i = shift(y_<i) + exp(log_scale(y_<i)) x_i

    The density of a value takes one run of the network: for training by maximum
    likelihood. A draw takes as many runs as there are elements, in one compiled loop.

    Args:
        network: A `bl.layers.MADE`.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> flow = bl.layers.MaskedAutoregressiveFlow(bl.layers.MADE(hidden_dims=[16]))
    >>> y = flow(bl.Normal(np.zeros((8, 3), "float32"), 1.0))
    >>> ops.shape(y.log_prob(np.zeros((8, 3), "float32")))
    (8,)

    Reference: Papamakarios et al. (2017), Masked autoregressive flow for density
    estimation.
    """

    sees_inputs = False

    def __init__(self, network, **kwargs):
        _check_made("MaskedAutoregressiveFlow", network)
        super().__init__(network, AffineMap(), **kwargs)


@register
class SplineAutoregressiveFlow(_Autoregressive, _SplineLayer):
    """Vectors whose elements are mapped by monotone splines, by the earlier outputs.

    y_i = spline(x_i; knots and slopes from y_<i), with the splines of
    `bl.layers.SplineCoupling` in the place of shift and scale of
    `bl.layers.MaskedAutoregressiveFlow`: the density of a value takes one run of the
    network, a draw as many as there are elements. `bl.layers.Reverse` swaps these.

    Args:
        network: A `bl.layers.MADE`.
        num_bins: The number of pieces. Defaults to 8.
        bound: A positive number: outside of it a spline is the identity. Defaults to 5.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> flow = bl.layers.SplineAutoregressiveFlow(bl.layers.MADE(hidden_dims=[16]))
    >>> y = flow(bl.Normal(np.zeros((8, 3), "float32"), 1.0))
    >>> ops.shape(y.log_prob(np.zeros((8, 3), "float32")))
    (8,)

    Reference: Durkan et al. (2019), Neural spline flows.
    """

    sees_inputs = False

    def __init__(self, network, num_bins=8, bound=5.0, **kwargs):
        _check_made("SplineAutoregressiveFlow", network)
        super().__init__(network, num_bins, bound, None, **kwargs)
