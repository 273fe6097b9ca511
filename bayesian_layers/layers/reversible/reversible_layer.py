"""The contract of reversible layers."""

import inspect

import keras
from keras import ops

from bayesian_layers.distributions import shapes
from bayesian_layers.distributions.transforms import Map
from bayesian_layers.layers.receiving import ReceivesRandomVariables
from bayesian_layers.layers.reversible import protocol
from bayesian_layers.layers.reversible.called import transform
from bayesian_layers.random_variable import RandomVariable


class ReversibleLayer(Map, ReceivesRandomVariables):
    """Base of invertible layers, which carry distributions from input to output.

    A subclass writes two methods, each the map and its log-determinant in one go,

    - `forward_and_log_det(x)`: y and log |det dy / dx|;
    - `reverse_and_log_det(y)`: x and log |det dx / dy|, the negative of the former,

    and states `event_rank`, the number of trailing axes that it acts on together: 0 (as
    here) for elementwise maps, 1 for maps of vectors, 3 for maps of images. A
    log-determinant has the shape of the input without these axes. Either method may
    take a `context`, a further tensor that the map depends on.

    It gets `layer(x)`, `layer.reverse(y)` and `layer.log_det_jacobian(x)`, shapes for
    Keras' symbolic calls, and the way of random variables: of a `RandomVariable` the
    layer makes another one, whose value is `layer(base.value)` and whose density is
    that of the base, changed by the volumes:

    log p(y) = log p_base(x) + log |det dx / dy|, at x = layer.reverse(y)

    The output can be transformed again, conditioned and traced; it goes by the name of
    the layer. A layer that changes shapes writes `forward_shape` and `reverse_shape`,
    and `output_rank` if that is another; one whose values are not all numbers says
    what its `image` is, a constraint. Inputs are computed with in float32 or better
    under any dtype policy. With `bl.layers.RandomWeights` before it in the bases its
    weights can be random: one call is then one draw, for value and density.

    Args:
        **kwargs: As in `keras.Layer`.

    Example:
    >>> class Cube(bl.layers.ReversibleLayer):
    ...     def forward_and_log_det(self, x):
    ...         return x**3, ops.log(3.0 * x**2)
    ...
    ...     def reverse_and_log_det(self, y):
    ...         x = ops.sign(y) * ops.abs(y) ** (1.0 / 3.0)
    ...         return x, -ops.log(3.0 * x**2)
    >>> y = Cube()(bl.Normal(0.0, 1.0))
    >>> round(float(y.log_prob(8.0)), 4)  # of N(0, 1) at 2, minus log 12
    -5.4038
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    @property
    def takes_context(self):
        """Whether the map depends on a context."""
        parameters = inspect.signature(self.forward_and_log_det).parameters
        return "context" in parameters

    def in_order(self):
        """Returns the layers that it is made of, one after another: here itself."""
        return [self]

    def build(self, inputs_shape, context_shape=None):
        """Checks the shape. A subclass with weights calls this and makes them."""
        self._check_rank(inputs_shape)

    def __call__(self, inputs, context=None, **kwargs):
        """Returns y: a tensor of a tensor, a random variable of a random variable."""
        if isinstance(inputs, RandomVariable):
            # Keras builds by the shapes of tensors only.
            shape = None if context is None else ops.shape(context)
            protocol.build(self, tuple(inputs.shape), shape)
        if context is not None:
            kwargs["context"] = context
        return super().__call__(inputs, **kwargs)

    def call(self, inputs, context=None):
        """Returns y: a tensor of a tensor, a random variable of a random variable."""
        self._check_context(context)
        if isinstance(inputs, RandomVariable):
            return transform(self.in_order(), inputs, context, self)
        return self._forward(inputs, context)

    def _forward(self, x, context):
        return protocol.run(self, "forward_and_log_det", x, context)[0]

    def _reverse(self, y, context):
        return protocol.run(self, "reverse_and_log_det", y, context)[0]

    def reverse(self, y, context=None):
        """Returns the x that the layer takes to y.

        Args:
            y: A tensor. Of a random variable it is the value that is meant: a random
                variable is made of it by `bl.layers.Reverse(layer)`.
            context: The context, for a layer that takes one.
        """
        if isinstance(y, keras.KerasTensor):
            from bayesian_layers.layers.reversible.reverse import Reverse

            return Reverse(self)(y, context=context)
        y, context = self._prepared(y, context, is_output=True)
        return self._reverse(y, context)

    def log_det_jacobian(self, x, context=None):
        """Returns log |det d layer(x) / dx|, one number for each example.

        An elementwise layer takes all axes of `x` but the first for one example; other
        layers the trailing axes that they act on.
        """
        x, context = self._prepared(x, context, is_output=False)
        log_det = protocol.run(self, "forward_and_log_det", x, context)[1]
        if len(log_det.shape) < len(x.shape):
            return log_det
        axes = tuple(range(1, len(x.shape)))
        return ops.sum(log_det, axis=axes) if axes else log_det

    def _prepared(self, x, context, is_output):
        """Tensor and context, converted and checked, of a layer that is then built."""
        x = self._convert_input(x)
        if isinstance(x, RandomVariable):
            x = x.value
        if context is not None:
            context = self._convert_input(context)
        self._check_context(context)
        context_shape = None if context is None else context.shape
        if not self.built:
            shape = tuple(x.shape)
            shape = self.reverse_shape(shape) if is_output else shape
            protocol.build(self, shape, context_shape)
        return x, context

    def _convert_input(self, value):
        value = super()._convert_input(value)
        if isinstance(value, (RandomVariable, keras.KerasTensor)) or value is None:
            return value
        if hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype):
            return ops.cast(value, self._float_dtype)
        return value

    @property
    def _float_dtype(self):
        dtype = self.compute_dtype
        return "float32" if dtype in ("float16", "bfloat16") else dtype

    @property
    def input_dtype(self):
        """The dtype of inputs: float32 or better, or they do not lead back."""
        return self._float_dtype

    # Checks.

    def _built_shape(self):
        """The last axes of the inputs that the layer was built for, or `None`."""
        return None

    def _check_rank(self, shape):
        if len(shape) < self.event_rank:
            raise ValueError(
                f"{type(self).__name__} expects inputs of at least {self.event_rank} "
                f"axes. Received: a shape of {tuple(shape)}"
            )

    def check_shape(self, shape, is_output=False):  # noqa: FBT002
        """Raises `ValueError` if inputs, or outputs, cannot have a shape."""
        shape, built = tuple(shape), self._built_shape()
        rank = self.output_rank if is_output else self.event_rank
        if built is not None and is_output:
            built = self.forward_shape(built)
        size = 0 if built is None else len(built)
        fits = not size or shapes.matches(shape[max(len(shape) - size, 0) :], built)
        if len(shape) >= rank and fits:
            return
        expected = f"that ends with {built}" if size else f"of at least {rank} axes"
        what = "outputs" if is_output else "inputs"
        raise ValueError(
            f"{type(self).__name__} expects {what} of a shape {expected}. "
            f"Received: a shape of {shape}"
        )

    def _check_context(self, context):
        if context is not None and not self.takes_context:
            raise ValueError(
                f"{type(self).__name__} depends on no context. Received: "
                f"context={context!r}. Leave it out, or write a layer whose "
                "`forward_and_log_det` takes it."
            )

    # Keras.

    def compute_output_shape(self, inputs_shape, context_shape=None):
        """Returns the shape of the output."""
        return tuple(self.forward_shape(tuple(inputs_shape)))

    def compute_output_spec(self, inputs, context=None):
        """Returns the shape and dtype of the output."""
        self._check_context(context)
        self.check_shape(inputs.shape)
        return keras.KerasTensor(
            self.forward_shape(tuple(inputs.shape)), self._float_dtype
        )
