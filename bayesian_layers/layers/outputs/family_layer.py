"""Output layers of families of distributions."""

import itertools
import math

import keras
from keras import ops

from bayesian_layers import backend
from bayesian_layers.distributions.transforms import Identity
from bayesian_layers.layers.outputs import parameters
from bayesian_layers.layers.outputs.output_layer import OutputLayer


class FamilyLayer(OutputLayer):
    """Base of output layers with the distributions of one family.

    The last axis of the inputs carries the parameters of the distribution, one after
    another: `[..., k * n] -> [..., n]`. With `units` a trainable linear map comes
    first, which makes as many numbers as `n = units` needs. All numbers are allowed:
    what has to be positive, say, is made so.

    A subclass states its `family`, a class of distributions, and is done: names, sizes
    and maps of the parameters follow from their constraints, the dtype of draws and
    which of mean and mode exist from the family. Where that will not do it states
    `maps`, by name, for parameters that want another map; or writes `sizes(n)`, the
    numbers that each parameter takes for n outputs, in order, and
    `from_parameters(**parameters)`, which makes the distribution of those numbers,
    tensors `[..., size]`. Such parameters have no constraint: they are taken for real
    unless `maps` says otherwise.

    It starts calm: unless a `kernel_initializer` is given, the columns of all
    parameters that are no real numbers (scales, rates, concentrations, degrees of
    freedom, covariances), and of those named in `calm`, start with a hundredth of the
    usual weights. The parameters then start near what their map makes of zero:
    softplus(0) = 0.69 for a scale, whatever the inputs.

    Args:
        units: The number n of outputs, or `None`: no map is added, and n follows from
            the inputs.
        homoscedastic: If `True`, the scale is a trainable variable, one for each
            output, instead of a function of the inputs.
        kernel_initializer: Initializer of the linear map. Defaults to Glorot's uniform
            one, with a calm start.
        bias_initializer: Initializer of its bias.
        **kwargs: As in `bl.layers.OutputLayer`.

    Example:
    >>> class Gumbel(bl.layers.FamilyLayer):
    ...     family = bl.distributions.Gumbel
    >>> y = Gumbel(2)(np.ones((8, 3)))
    >>> ops.shape(y), ops.shape(y.mean())
    ((8, 2), (8, 2))
    """

    family = None
    maps = {}
    calm = ()

    def __init__(
        self,
        units=None,
        *,
        homoscedastic=False,
        kernel_initializer=None,
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if units is not None and not (isinstance(units, int) and units > 0):
            raise ValueError(
                "`units` should be a positive integer or `None`. "
                f"Received: units={units}"
            )
        if homoscedastic and self.scale_parameter is None:
            raise ValueError(
                f"{type(self).__name__} has no scale that could be the same for all "
                "inputs. Received: homoscedastic=True"
            )
        if self.facts.draws_gamma_noise:
            self.supports_jit = backend.compiles_gamma_noise
        self.units = units
        self.homoscedastic = homoscedastic
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.projection = None
        if units is not None:
            self.projection = keras.layers.Dense(
                self._columns(units),
                kernel_initializer=self.kernel_initializer or self._calm_start(units),
                bias_initializer=self.bias_initializer,
                dtype=self.dtype_policy,
                name="projection",
            )

    # What a subclass may write.

    def sizes(self, count):
        """Returns the number of columns of each parameter, for `count` outputs."""
        sizes = {}
        for name in parameters.names_of(self.family):
            shape = (count,) * max(self.family.parameters[name].event_rank, 1)
            sizes[name] = math.prod(self.map_of(name).reverse_shape(shape))
        return sizes

    def from_parameters(self, **values):
        """Returns the distribution, given the columns of each parameter."""
        return self.family(
            **{name: self.map_of(name)(value) for name, value in values.items()}
        )

    def map_of(self, name):
        """Returns the map that makes a parameter of its columns."""
        constraint = self.family.parameters.get(name)
        if name in self.maps or constraint is None:
            return self.maps.get(name, Identity())
        return parameters.map_to(constraint)

    # What follows from the family.

    @property
    def facts(self):
        """What there is to know of the distributions without their parameters."""
        if self.family is None:
            raise TypeError(
                f"{type(self).__name__} should state its `family`, a class of "
                "distributions. Received: family=None"
            )
        return parameters.facts(self.family)

    @property
    def scale_parameter(self):
        """The parameter that may be homoscedastic, of those with a location."""
        names = () if self.family is None else tuple(self.family.parameters)
        scales = [name for name in ("scale", "scale_diag") if name in names]
        return scales[0] if scales and "loc" in names else None

    def _conversions(self):
        return self.facts.conversions

    # Shapes.

    def _sizes(self, count):
        """The columns of the parameters that are functions of the inputs."""
        sizes = dict(self.sizes(count))
        if self.homoscedastic:
            del sizes[self.scale_parameter]
        return sizes

    def _columns(self, count):
        return sum(self._sizes(count).values())

    def _count(self, columns):
        """The number of outputs whose parameters take so many columns."""
        # Most families take the same number for each output; others are searched.
        count = max(1, columns // self._columns(1))
        if self._columns(count) != columns:
            count = next(n for n in itertools.count(1) if self._columns(n) >= columns)
        if self._columns(count) != columns:
            raise ValueError(
                f"{type(self).__name__} without `units` takes "
                f"{self._explain()} on the last axis. Received inputs with {columns}. "
                "Give `units` to have them made by a linear map."
            )
        return count

    def _explain(self):
        examples = [self._columns(count) for count in (1, 2, 3)]
        names = ", ".join(self._sizes(1))
        return f"the parameters {names} ({', '.join(map(str, examples))}, ... columns)"

    def _calm_start(self, units):
        factors = []
        for name, size in self._sizes(units).items():
            calm = name in self.calm or self.map_of(name) != Identity()
            factors += [0.01 if calm else 1.0] * size
        return parameters.CalmStart(factors)

    def build(self, input_shape):
        """Builds the linear map and the scale, if there are any."""
        count = self.units or self._count(input_shape[-1])
        if self.projection is not None:
            self.projection.build(input_shape)
        if self.homoscedastic:
            self.scale = self.add_weight(
                shape=(self.sizes(count)[self.scale_parameter],),
                initializer="zeros",
                name="scale",
                dtype=self._float_dtype(),
                autocast=False,
            )

    def compute_output_shape(self, input_shape):
        """Returns the shape of the random variable."""
        count = self.units or self._count(input_shape[-1])
        facts = self.facts
        has_axis = facts.event_rank or not facts.is_vector
        return (*input_shape[:-1], count) if has_axis else tuple(input_shape[:-1])

    def compute_output_spec(self, inputs):
        """Returns the shape and dtype of the random variable."""
        dtype = self.facts.sample_dtype or self._float_dtype()
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=dtype)

    # Calling.

    def distribution(self, inputs):
        """Returns the distribution with the parameters that the inputs carry."""
        if self.projection is not None:
            inputs = self.projection(inputs)
        return self.from_parameters(**self._split_parameters(inputs))

    def _split_parameters(self, inputs):
        sizes = self._sizes(self.units or self._count(inputs.shape[-1]))
        inputs = ops.cast(inputs, self._float_dtype())
        values, start = {}, 0
        for name, size in sizes.items():
            values[name] = inputs[..., start : start + size]
            start += size
        if self.homoscedastic:
            values[self.scale_parameter] = ops.convert_to_tensor(self.scale)
        return values

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "homoscedastic": self.homoscedastic,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
