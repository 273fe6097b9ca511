"""What `EinsumDense` needs: the fans of its kernel, and the axes of its features."""

import keras

from bayesian_layers.initializers import Posterior


class EinsumFans:
    """Starts the mean of an `EinsumDense` kernel as Keras would.

    Keras tells a `VarianceScaling` initializer which axes of the kernel are inputs and
    which are outputs, but only if it finds that initializer in `kernel_initializer`.
    So it is put there while the layer is built, and `add_weight` puts it into the
    posterior.
    """

    _kernel_posterior = None

    def build(self, input_shape):
        """Builds the layer."""
        posterior = self.kernel_initializer
        if not isinstance(posterior, Posterior):
            super().build(input_shape)
            return
        location = posterior.parameters()[posterior.location].initializer
        if isinstance(location, keras.initializers.VarianceScaling):
            self._kernel_posterior = posterior
            self.kernel_initializer = location
        try:
            super().build(input_shape)
        finally:
            self.kernel_initializer = posterior

    def add_weight(self, shape=None, initializer=None, *, name=None, **kwargs):
        """Adds a weight; the kernel gets the posterior that was set aside."""
        is_location = isinstance(initializer, keras.initializers.VarianceScaling)
        if name == "kernel" and is_location and self._kernel_posterior is not None:
            initializer = self._kernel_posterior.with_location(initializer)
        return super().add_weight(shape, initializer, name=name, **kwargs)


def feature_axes(equation, rank):
    """The axes of an einsum's inputs and outputs along which its kernel has elements.

    Args:
        equation: An equation of `EinsumDense`, such as `"...x,xy->...y"`.
        rank: The rank of the inputs, of which the first axis counts the examples.

    Returns:
        The set of axes of the inputs, the set of axes of the outputs, and the axis of
        the outputs that counts the examples.
    """
    operands, _, outputs = equation.replace(" ", "").partition("->")
    inputs, kernel = operands.split(",")
    hidden = [f"...{i}" for i in range(rank - len(inputs.replace("...", "")))]
    inputs, outputs = _labels(inputs, hidden), _labels(outputs, hidden)
    if inputs[0] not in outputs or inputs[0] in kernel:
        raise ValueError(
            "Flipout needs an equation whose first input axis counts the examples, and "
            f"that keeps it. Received: equation={equation!r}"
        )
    return (
        {axis for axis, label in enumerate(inputs) if label in kernel},
        {axis for axis, label in enumerate(outputs) if label in kernel},
        outputs.index(inputs[0]),
    )


def check_no_sums(equation):
    """Raises `ValueError` if one element of the kernel multiplies a sum of inputs."""
    operands, _, outputs = equation.replace(" ", "").partition("->")
    inputs, kernel = operands.replace("...", "").split(",")
    summed = sorted(set(inputs) - set(kernel) - set(outputs))
    if summed:
        raise ValueError(
            "Local reparameterization needs an equation that sums only over axes that "
            "the kernel has too: otherwise the variance of an output is no product "
            f"with the squares of inputs. Received: equation={equation!r}, which sums "
            f"the inputs over {', '.join(summed)}. Use EinsumDenseReparameterization "
            "or EinsumDenseFlipout instead."
        )


def _labels(subscripts, hidden):
    """The label of each axis; the axes of an ellipsis have labels of their own."""
    before, _, after = subscripts.partition("...")
    middle = hidden if "..." in subscripts else []
    return [*before, *middle, *after]
