"""Points in space or time, whose intensity is a function."""

import contextlib
import warnings

import keras
import numpy as np
from keras import ops

from bayesian_layers import backend, random_weights, seeds
from bayesian_layers.distributions import Deterministic, Normal
from bayesian_layers.distributions.arguments import common_dtype
from bayesian_layers.distributions.expectation import average, spread
from bayesian_layers.distributions.functions import bounded_exp
from bayesian_layers.distributions.noise import uniform
from bayesian_layers.distributions.point_pattern import PointPattern
from bayesian_layers.distributions.transforms import Exp, Softplus
from bayesian_layers.keras_contact import called_path
from bayesian_layers.layers.register import register
from bayesian_layers.random_variable import RandomVariable
from bayesian_layers.random_weights.kl import random_layers

# Nodes along each axis, for regions of one, two and three dimensions.
QUADRATURE = {1: 64, 2: 24, 3: 12}
MONTE_CARLO = 1024
MOST_NODES = 20_000
MOST_POINTS = 10_000_000
LINKS = {"exp": Exp(), "softplus": Softplus()}


@register
class PoissonProcess(keras.Layer):
    """Points whose intensity is a function: an inhomogeneous Poisson process.

    log p(x_1, ..., x_n) = sum_i log intensity(x_i) - integral of the intensity,
    intensity(x) = exp(f(x)) or softplus(f(x)), over the box from `low` to `high`

    With a random function f, such as a Gaussian process, it is a Cox process. Called on
    points `[n, D]`, it evaluates the function at these and at the nodes of the integral
    in one call, so that both are of one draw, and returns a random variable `[n]`. Its
    value is the (mean) intensity at each point, with `mean` and `variance`; its
    `log_prob` of ones is the term of each point in the log-likelihood above, the
    integral shared among them. So it trains by

        process = bl.layers.PoissonProcess(f, low, high, num_points=len(points))
        model = keras.Sequential([keras.Input((D,)), process])
        model.compile(optimizer, bl.losses.NegativeLogLikelihood())
        model.fit(points, np.ones(len(points)))

    in batches of any size: the loss is -log p / N, for a pattern of N points. Where
    f(x) has a normal distribution, `log_prob` is the expected log-likelihood: exact for
    `"exp"`, where E log intensity = E f and E intensity = exp(E f + Var f / 2), and by
    Gauss-Hermite nodes for `"softplus"`. For the evidence bound, give `bl.scale_kl` the
    N as `dataset_size`.

    Points outside of the region raise where the numbers can be looked at: on PyTorch,
    and outside of compiled functions.

    Args:
        function: A layer or model from `[n, D]` to `[n, 1]`, or a random variable of
            that shape. Its weights are those of this layer.
        low: The lower ends of the region, a number or one for each dimension.
        high: The upper ends.
        link: `"exp"` (the default) or `"softplus"`: what makes an intensity of f.
        integration: `"quadrature"` (the default), by the Gauss-Legendre rule on a grid,
            in up to three dimensions; or `"monte_carlo"`, by uniform draws at each
            call, whose error vanishes as one over the square root of their number.
        num_nodes: The number of nodes: along each axis for `"quadrature"`, defaults to
            64, 24 or 12 in one, two or three dimensions; in all for `"monte_carlo"`,
            defaults to 1024.
        num_points: The number N of points of the whole pattern, of which batches are
            parts. Without it each call is taken for a whole pattern: `fit` and
            `evaluate` with smaller batches would then count the integral in each, and
            `fit` warns.
        seed: Integer seed of Monte Carlo nodes. Defaults to a random one.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> points = np.random.default_rng(0).uniform(0.0, 2.0, (300, 1))
    >>> rate = keras.layers.Dense(1, kernel_initializer="zeros", trainable=False)
    >>> process = bl.layers.PoissonProcess(rate, low=0.0, high=2.0)
    >>> pattern = process(points)  # Of intensity exp(0) = 1 over a length of 2.
    >>> round(float(ops.sum(pattern.log_prob(np.ones(300)))), 4)
    -2.0

    Reference: Lloyd et al. (2015), Variational inference for Gaussian process modulated
    Poisson processes.
    """

    def __init__(
        self,
        function,
        low,
        high,
        link="exp",
        *,
        integration="quadrature",
        num_nodes=None,
        num_points=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(function, keras.Layer):
            raise ValueError(
                "`function` should be a Keras layer or model from [n, D] to [n, 1]. "
                f"Received: function={function!r}"
            )
        for name, value, allowed in (
            ("link", link, tuple(LINKS)),
            ("integration", integration, ("quadrature", "monte_carlo")),
        ):
            if value not in allowed:
                raise ValueError(
                    f"`{name}` of PoissonProcess should be one of {allowed}. "
                    f"Received: {name}={value!r}"
                )
        for name, count in (("num_nodes", num_nodes), ("num_points", num_points)):
            if count is not None and not (isinstance(count, int) and count > 0):
                raise ValueError(
                    f"`{name}` of PoissonProcess should be a positive integer or "
                    f"`None`. Received: {name}={count!r}"
                )
        self.low, self.high = _ends(low), _ends(high)
        if not np.all(np.less(self.low, self.high)):
            raise ValueError(
                "PoissonProcess expects `low` < `high` in each dimension. "
                f"Received: low={low}, high={high}"
            )
        self.function = function
        self.link = link
        self.integration = integration
        self.num_nodes = num_nodes
        self.num_points = num_points
        self.seed = seed
        self.seed_generator = seeds.generator(seed)

    def build(self, input_shape):
        """Builds the function, and the rule of the integral."""
        size = input_shape[-1]
        try:
            low, high = (np.broadcast_to(e, (size,)) for e in (self.low, self.high))
        except ValueError as error:
            raise ValueError(
                f"Points of {size} dimensions need as many ends of the region, or one "
                f"for all. Received: low={self.low}, high={self.high}"
            ) from error
        self._box = np.array([low, high], "float64")
        if self.integration == "quadrature":
            self._rule = _gauss_legendre(self._box, self._nodes_along_axes(size))
        if not self.function.built:
            self.function.build((None, size))

    def _nodes_along_axes(self, size):
        count = self.num_nodes or QUADRATURE.get(size)
        if size not in QUADRATURE or count**size > MOST_NODES:
            cost = f"{count}**{size} nodes" if count else f"a grid in {size} dimensions"
            raise ValueError(
                f"The integral over the region would take {cost}: quadrature is for up "
                f'to 3 dimensions and {MOST_NODES} nodes. Use integration="monte_carlo"'
                f". Received: points of {size} dimensions, num_nodes={self.num_nodes}"
            )
        return count

    def _nodes(self, dtype):
        """Nodes `[q, D]`, and their weights, whose sum is the volume of the region."""
        if self.integration == "quadrature":
            return [ops.convert_to_tensor(part, dtype) for part in self._rule]
        count, size = self.num_nodes or MONTE_CARLO, self._box.shape[1]
        width = self._box[1] - self._box[0]
        low, scale = (ops.convert_to_tensor(x, dtype) for x in (self._box[0], width))
        nodes = low + scale * uniform((count, size), dtype, self.seed_generator)
        return nodes, ops.full((count,), np.prod(width) / count, dtype)

    def call(self, points, training=None):
        """Returns a random variable: the intensities, which know their likelihood."""
        if training and self.num_points is None:
            warnings.warn(
                "PoissonProcess without `num_points` takes each batch for a whole "
                "pattern, with the whole integral. Give `num_points`, the number of "
                "points that it is trained on.",
                stacklevel=2,
            )
        self._check_inside(points)
        nodes, weights = self._nodes(common_dtype([points]))
        nodes = ops.cast(nodes, points.dtype)
        f = self._values(ops.concatenate([points, nodes], axis=0))
        log_intensity, intensity, variance = self._moments(f)
        size = ops.shape(points)[0]
        integral = ops.sum(ops.cast(weights, intensity.dtype) * intensity[size:])
        count = ops.cast(self.num_points or size, intensity.dtype)
        distribution = PointPattern(
            log_intensity[:size], intensity[:size], variance[:size], integral / count
        )
        # Its value is the mean: the same for whoever asks.
        return RandomVariable(
            distribution,
            value=distribution.mean(),
            name=called_path(self),
            observed=False,
        )

    def _check_inside(self, points):
        """Raises `ValueError` for points outside of the region, if they are numbers."""
        if not backend.is_concrete(points):
            return
        points = ops.convert_to_numpy(ops.cast(points, "float32"))
        slack = 1e-2 if "16" in self.compute_dtype else 1e-5
        slack = slack * (self._box[1] - self._box[0] + np.abs(self._box).max(axis=0))
        outside = (points < self._box[0] - slack) | (points > self._box[1] + slack)
        if outside.any():
            raise ValueError(
                "The points of a pattern lie in the region that the intensity is "
                f"integrated over, low={self.low} to high={self.high}. Received: the "
                f"point {points[outside.any(axis=1)][0]}. For intensities elsewhere "
                "use the method `intensity`."
            )

    def _values(self, points):
        """The distribution of f at points, `Normal` or `Deterministic`, `[n]`."""
        f = self.function(points)
        shape = tuple(f.shape)
        if len(shape) != 2 or shape[-1] != 1:
            raise ValueError(
                "PoissonProcess expects a function to [n, 1]. Received: a function to "
                f"{shape} for points of shape {tuple(points.shape)}"
            )
        is_known = not isinstance(f, RandomVariable) or f.is_wanted()
        distribution = None if is_known else f.distribution
        # Of values that are jointly normal.
        if hasattr(distribution, "marginal"):
            distribution = distribution.marginal()
        if isinstance(distribution, Normal):
            distribution = distribution._broadcast_batch(ops.shape(f))
            return Normal(distribution.loc[:, 0], distribution.scale[:, 0])
        f = ops.convert_to_tensor(f)[:, 0]
        return Deterministic(ops.cast(f, common_dtype([f])))

    def _moments(self, f):
        """E log intensity, E intensity and Var intensity."""
        link, dtype = LINKS[self.link], f.parameter_dtype
        if isinstance(f, Deterministic):
            intensity = link(f.loc)
            log_intensity = f.loc if self.link == "exp" else ops.log(intensity)
            return log_intensity, intensity, ops.zeros_like(intensity)
        if self.link == "exp":
            variance = ops.square(f.scale)
            intensity = bounded_exp(f.loc + 0.5 * variance, dtype)
            return f.loc, intensity, ops.square(intensity) * ops.expm1(variance)
        values, log_weights = spread(f, 20)
        values = link(values)
        intensity = average(values, log_weights)
        variance = average(ops.square(values - intensity), log_weights)
        return average(ops.log(values), log_weights), intensity, variance

    def intensity(self, x):
        """Returns the mean intensity at points `[n, D]`: a tensor `[n]`."""
        x = ops.convert_to_tensor(x, self.compute_dtype)
        if not self.built:
            self.build(x.shape)
        return self._moments(self._values(x))[1]

    def sample(self, seed=None):
        """Draws a pattern of points, by thinning.

        A random function is drawn once, as in `bl.weights(layer, seed)`; then points of
        a higher, constant intensity are drawn, of which each stays with probability
        intensity(x) / bound. A bound that a point shows to be too low is raised.

        Args:
            seed: Integer, or `None` for a fresh draw.

        Returns:
            The points, a NumPy array `[n, D]`.
        """
        if not self.built:
            raise ValueError(
                "PoissonProcess is not built: call it on points first, or `build` it."
            )
        entropy = None if seed is None else [seed % 2**64]
        function_seed, seed = seeds.integers(entropy, 2).tolist()
        with self._one_function(function_seed):
            return self._thinned(np.random.default_rng(seed))

    def _one_function(self, seed):
        if not random_layers(self.function):
            return contextlib.nullcontext()
        return random_weights.weights(self.function, seed=seed)

    def _thinned(self, rng):
        box, size = self._box, self._box.shape[1]
        along = max(2, round(4096 ** (1.0 / size)))
        axes = [np.linspace(low, high, along) for low, high in box.T]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, size)
        volume = np.prod(box[1] - box[0])
        points, marks, intensities = np.empty((0, size)), np.empty(0), np.empty(0)
        bound, wanted = 0.0, 1.2 * self._drawn_intensity(grid).max()
        # Points of a process, each with a mark between 0 and the bound: those whose
        # mark is below the intensity stay. A higher bound adds points with higher
        # marks, and leaves those that there are.
        while bound < wanted:
            expected = (wanted - bound) * volume
            if not expected < MOST_POINTS:
                raise ValueError(
                    f"An intensity of up to {wanted:g} on a volume of {volume:g} gives "
                    f"more than {MOST_POINTS:g} points to draw."
                )
            count = rng.poisson(expected)
            added = rng.uniform(box[0], box[1], (count, size))
            points = np.concatenate([points, added])
            marks = np.concatenate([marks, rng.uniform(bound, wanted, count)])
            intensities = np.concatenate([intensities, self._drawn_intensity(added)])
            bound = wanted
            if intensities.max(initial=0.0) > bound:
                wanted = 1.2 * intensities.max()
        return points[marks < intensities]

    def _drawn_intensity(self, x):
        if not len(x):
            return np.empty(0)
        # In few sizes, as on JAX each is compiled for.
        padded = np.resize(x, (1 << max(6, (len(x) - 1).bit_length()), x.shape[1]))
        f = self._values(ops.convert_to_tensor(padded, self.compute_dtype))
        if not isinstance(f, Deterministic):
            raise ValueError(
                "A pattern is drawn from one function, and the function of this layer "
                "stays uncertain within `bl.weights`: its values have the distribution "
                f"{type(f).__name__}. Give PoissonProcess a Gaussian process layer, or "
                "a model without an output layer."
            )
        intensity = ops.stop_gradient(LINKS[self.link](f.loc))
        return ops.convert_to_numpy(intensity)[: len(x)]

    def compute_output_spec(self, points, training=None):
        """Returns the shape and dtype of the random variable."""
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        return keras.KerasTensor(self.compute_output_shape(points.shape), dtype)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the random variable."""
        return tuple(input_shape[:1])

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "function": keras.saving.serialize_keras_object(self.function),
            "low": self.low,
            "high": self.high,
            "link": self.link,
            "integration": self.integration,
            "num_nodes": self.num_nodes,
            "num_points": self.num_points,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a layer from what `get_config` returned."""
        function = keras.saving.deserialize_keras_object(config["function"])
        return cls(**{**config, "function": function})


def _ends(ends):
    """The ends of a region as a number or a list of numbers."""
    array = np.asarray(ends, "float64")
    if array.ndim > 1 or not np.all(np.isfinite(array)):
        raise ValueError(
            "The ends of the region should be finite numbers, one or one for each "
            f"dimension. Received: {ends!r}"
        )
    return array.tolist()


def _gauss_legendre(box, count):
    """The nodes and weights of the product rule on a box, `[q, D]` and `[q]`."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    axes = [0.5 * (low + high) + 0.5 * (high - low) * nodes for low, high in box.T]
    scaled = [0.5 * (high - low) * weights for low, high in box.T]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    products = np.prod(np.stack(np.meshgrid(*scaled, indexing="ij")), axis=0)
    return grid.reshape(-1, len(axes)), products.reshape(-1)
