"""The linear maps of Keras layers and their adjoints, as functions of the kernel.

An operator has `shape`, that of one input without its batch axis; `forward(kernel, x)`
for one such input; and `adjoint(kernel, y)`, with <y, forward(x)> = <adjoint(y), x>.
"""

import math

import keras
from keras import ops

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
LAYERS = (keras.layers.Dense, keras.layers.EinsumDense, *CONVOLUTIONS, *DEPTHWISE)


def operator_of(layer, input_shape):
    """Returns the operator of a built layer on inputs of a shape, batch included."""
    if isinstance(layer, keras.layers.EinsumDense):
        return EinsumOperator(layer.equation, layer.kernel.shape)
    if isinstance(layer, keras.layers.Dense):
        return EinsumOperator("a,ab->b", layer.kernel.shape)
    return ConvolutionOperator(layer, input_shape)


class EinsumOperator:
    """The map of an equation such as `"ab,bc->ac"`.

    Along axes that the kernel does not have it does the same again and again: they
    leave its norm as it is and are left out.

    Args:
        equation: As in `keras.layers.EinsumDense`.
        kernel_shape: The shape of the kernel.
    """

    def __init__(self, equation, kernel_shape):
        arguments, result = equation.replace(" ", "").replace("...", "").split("->")
        argument, kernel = arguments.split(",")
        summed = set(argument) - set(kernel) - set(result)
        if summed:
            raise ValueError(
                "Expected an equation that sums the input over axes of the kernel only."
                f" Received: equation={equation!r}, which sums it over {sorted(summed)}"
            )
        argument = "".join(axis for axis in argument if axis in kernel)
        result = "".join(axis for axis in result if axis in kernel)
        sizes = dict(zip(kernel, kernel_shape, strict=True))
        self.shape = tuple(sizes[axis] for axis in argument)
        self._forward = f"{argument},{kernel}->{result}"
        self._adjoint = f"{result},{kernel}->{argument}"

    def forward(self, kernel, x):
        """Returns the map of an input."""
        return ops.einsum(self._forward, x, kernel)

    def adjoint(self, kernel, y):
        """Returns the adjoint map of an output."""
        return ops.einsum(self._adjoint, y, kernel)


class ConvolutionOperator:
    """A convolution on images (or sequences, or volumes) of one size.

    With strides s, dilations d, padding p in front and a kernel of k taps,
    y[o] = sum_j x[o s + j d - p] W[j]. The adjoint is a convolution too: of y with
    s - 1 zeros after each element, by the reversed kernel with its channels exchanged.
    Channels are last here, whatever the layer has.

    Args:
        layer: A convolution of Keras, built.
        input_shape: The shape of its inputs, batch included.
    """

    def __init__(self, layer, input_shape):
        if layer.data_format == "channels_last":
            *sizes, channels = input_shape[1:]
        else:
            channels, *sizes = input_shape[1:]
        if None in sizes:
            raise ValueError(
                "The norm of a convolution depends on the size of what it is applied "
                "to: expected inputs of one known size. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        self.shape = (*sizes, channels)
        self._is_depthwise = isinstance(layer, DEPTHWISE)
        groups = channels if self._is_depthwise else layer.groups
        self._groups = groups
        self._dilation = tuple(layer.dilation_rate)
        self._strides = tuple(layer.strides)
        self._reach = [
            (taps - 1) * dilation
            for taps, dilation in zip(layer.kernel_size, self._dilation, strict=True)
        ]
        self._padding = [
            _padding(layer.padding, size, reach, stride)
            for size, reach, stride in zip(
                sizes, self._reach, self._strides, strict=True
            )
        ]

    def _kernel(self, kernel):
        """The kernel as `[*taps, channels of a group, filters]`."""
        if not self._is_depthwise:
            return kernel
        *taps, channels, multiplier = kernel.shape
        return ops.reshape(kernel, (*taps, 1, channels * multiplier))

    def _convolve(self, x, kernel, padding, strides):
        x = ops.pad(x[None], [(0, 0), *padding, (0, 0)])
        return ops.conv(
            x,
            kernel,
            strides=strides,
            padding="valid",
            dilation_rate=self._dilation,
            data_format="channels_last",
        )[0]

    def forward(self, kernel, x):
        """Returns the map of an input `[*sizes, channels]`."""
        return self._convolve(x, self._kernel(kernel), self._padding, self._strides)

    def adjoint(self, kernel, y):
        """Returns the adjoint map of an output `[*sizes, filters]`."""
        rank = len(self._strides)
        for axis, stride in enumerate(self._strides):
            y = _spread(y, axis, stride)
        padding = []
        for axis, (before, _) in enumerate(self._padding):
            front = self._reach[axis] - before
            total = self.shape[axis] + self._reach[axis]
            padding.append((front, total - front - y.shape[axis]))
        kernel = ops.flip(self._kernel(kernel), axis=tuple(range(rank)))
        return self._convolve(y, self._exchanged(kernel), padding, (1,) * rank)

    def _exchanged(self, kernel):
        """The kernel with channels and filters of each group in each other's place."""
        *taps, channels, filters = kernel.shape
        each = filters // self._groups
        kernel = ops.reshape(kernel, (*taps, channels, self._groups, each))
        kernel = ops.swapaxes(kernel, -3, -1)
        return ops.reshape(kernel, (*taps, each, self._groups * channels))


def _padding(kind, size, reach, stride):
    """The zeros before and after one axis."""
    if kind == "causal":
        return reach, 0
    if kind == "valid":
        return 0, 0
    outputs = math.ceil(size / stride)
    total = max((outputs - 1) * stride + reach + 1 - size, 0)
    return total // 2, total - total // 2


def _spread(y, axis, stride):
    """Puts `stride - 1` zeros between the elements along an axis."""
    if stride == 1:
        return y
    shape = tuple(y.shape)
    size = shape[axis]
    y = ops.expand_dims(y, axis + 1)
    padding = [(0, 0)] * len(y.shape)
    padding[axis + 1] = (0, stride - 1)
    y = ops.pad(y, padding)
    y = ops.reshape(y, (*shape[:axis], size * stride, *shape[axis + 1 :]))
    return ops.take(y, ops.arange((size - 1) * stride + 1), axis=axis)
