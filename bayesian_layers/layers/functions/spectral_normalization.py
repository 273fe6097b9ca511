"""Layers whose linear map has a bounded norm."""

import keras
from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.layers.functions.linear_operators import LAYERS, operator_of
from bayesian_layers.layers.register import register
from bayesian_layers.random_weights import RandomWeights
from bayesian_layers.random_weights.substitution import call_with

# What is taken for a norm of zero; its square is a normal number in float32.
FLOOR = 1e-15


@register
class SpectralNormalization(keras.layers.Wrapper):
    """A layer that stretches distances between its inputs by a bounded factor.

    The kernel W of the wrapped layer is read as W / max(1, sigma / norm_bound), where
    sigma is the spectral norm of the layer's linear map: the most by which it stretches
    any difference of inputs. A smaller map is left as it is (unlike in
    `keras.layers.SpectralNormalization`, which fixes the norm to one). With a bound
    below one, residual blocks x + g(x) keep inputs apart that are apart, which is what
    a Gaussian process on top of them needs to tell far from near.

    sigma is that of the map itself. For a convolution this is not the norm of its
    kernel as a matrix, but that of the convolution on inputs of the size that the
    layer was built for, with its strides, dilation and padding.

    It is found by power iteration: the layer keeps a vector v (`singular_vector`, of
    the shape of one input), and sigma = |W v|. In training each call first does
    `power_iterations` steps of v <- W^T W v, normalized. Gradients flow through sigma,
    not through v. As |W v| is below the norm until v has converged, the bound is one
    after some steps of training; weights that were set otherwise, such as those of a
    trained network that is wrapped, need `iterate`.

    It bounds the linear map: that of the layer is bounded too if its activation does
    not stretch (ReLU, tanh, softplus and the like).

    Args:
        layer: A `Dense`, `EinsumDense`, `Conv1D`, `Conv2D`, `Conv3D`,
            `DepthwiseConv1D` or `DepthwiseConv2D` of Keras. Convolutions need inputs
            of one known size. Layers with random weights are refused: each draw of
            their kernel has another norm.
        norm_bound: The bound, positive.
        power_iterations: The number of steps in each call in training, positive.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> dense = keras.layers.Dense(4, kernel_initializer=keras.initializers.Constant(3))
    >>> layer = bl.layers.SpectralNormalization(dense, norm_bound=0.9)
    >>> y = layer(np.ones((2, 4)), training=True)
    >>> round(float(ops.convert_to_numpy(layer.spectral_norm())), 3)
    12.0
    >>> round(float(ops.convert_to_numpy(y)[0, 0]), 3)
    0.9

    References: Miyato et al. (2018), Spectral normalization for generative adversarial
    networks; Gouk et al. (2021), Regularisation of neural networks by enforcing
    Lipschitz continuity, for convolutions; Liu et al. (2020), Simple and principled
    uncertainty estimation with deterministic deep learning via distance awareness.
    """

    def __init__(self, layer, norm_bound=0.95, power_iterations=1, **kwargs):
        super().__init__(layer, **kwargs)
        if isinstance(layer, RandomWeights):
            raise ValueError(
                "SpectralNormalization needs a layer with one kernel: each draw of a "
                "random one has another norm. Wrap the layer of Keras instead. "
                f"Received: layer={layer!r}"
            )
        if not isinstance(layer, LAYERS) or keras_contact.is_quantized(layer):
            raise ValueError(
                "SpectralNormalization knows the linear maps of "
                f"{', '.join(cls.__name__ for cls in LAYERS)} (not quantized). "
                f"Received: layer={layer!r}"
            )
        if not norm_bound > 0:
            raise ValueError(
                f"`norm_bound` should be positive. Received: norm_bound={norm_bound}"
            )
        if not (isinstance(power_iterations, int) and power_iterations > 0):
            raise ValueError(
                "`power_iterations` should be a positive integer. "
                f"Received: power_iterations={power_iterations}"
            )
        self.norm_bound = norm_bound
        self.power_iterations = power_iterations
        self.supports_masking = layer.supports_masking

    def build(self, input_shape):
        """Builds the wrapped layer and the vector of the power iteration."""
        super().build(input_shape)
        self._operator = operator_of(self.layer, input_shape)
        dtype = self.layer.variable_dtype
        self.singular_vector = self.add_weight(
            name="singular_vector",
            shape=self._operator.shape,
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            dtype="float32" if dtype in ("float16", "bfloat16") else dtype,
            trainable=False,
            autocast=False,
        )

    def iterate(self, steps=100):
        """Runs power iterations, as training does, for weights that were set by hand.

        Args:
            steps: Their number.
        """
        self.singular_vector.assign(self._iterated(self._kernel(), steps))

    def spectral_norm(self):
        """Returns sigma, the norm of the wrapped layer's map, a scalar.

        It is an estimate from below, by the power iterations made so far.
        """
        return self._norm(self._kernel(), ops.convert_to_tensor(self.singular_vector))

    def _kernel(self):
        return ops.cast(self.layer.kernel, self.singular_vector.dtype)

    def _iterated(self, kernel, steps):
        kernel = ops.stop_gradient(kernel)
        vector = ops.convert_to_tensor(self.singular_vector)

        def step(_, vector):
            image = self._operator.forward(kernel, vector)
            image = self._operator.adjoint(kernel, image)
            norm = _norm(image)
            # A map that is zero would leave no direction to go on with.
            return ops.where(norm > 2.0 * FLOOR, image / norm, vector)

        return ops.fori_loop(0, steps, step, vector)

    def _norm(self, kernel, vector):
        vector = ops.stop_gradient(vector)
        return _norm(self._operator.forward(kernel, vector)) / _norm(vector)

    def call(self, inputs, training=None):
        """Returns the outputs of the wrapped layer with the bounded kernel."""
        kernel = self._kernel()
        vector = ops.convert_to_tensor(self.singular_vector)
        if training:
            vector = self._iterated(kernel, self.power_iterations)
            self.singular_vector.assign(vector)
        stretch = ops.maximum(1.0, self._norm(kernel, vector) / self.norm_bound)
        values = {
            self._attribute(): ops.cast(kernel / stretch, self.layer.compute_dtype)
        }
        if keras_contact.has_lora(self.layer):
            values["lora_enabled"] = False  # The kernel has it.
        return call_with(self.layer, type(self.layer).__call__, (inputs,), {}, values)

    def _attribute(self):
        """The attribute that the layer reads its kernel from."""
        return "_kernel" if "_kernel" in vars(self.layer) else "kernel"

    def compute_output_shape(self, input_shape):
        """Returns the shape of the outputs of the wrapped layer."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "norm_bound": self.norm_bound,
            "power_iterations": self.power_iterations,
        }


def _norm(x):
    """|x|, with a finite gradient at zero."""
    return ops.sqrt(ops.sum(ops.square(x)) + FLOOR**2)
