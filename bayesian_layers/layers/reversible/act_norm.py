"""Activation normalization."""

from keras import ops

from bayesian_layers import keras_contact
from bayesian_layers.layers.register import register
from bayesian_layers.layers.reversible.channels import ChannelsLayer


@register
class ActNorm(ChannelsLayer):
    """Scales and shifts channels, from where the first batch has mean 0 and variance 1.

        y = exp(log_scale) * (x - data_mean) / data_stddev + shift

    at each position, with `log_scale` and `shift` for each channel, which are trained
    and start at zero. `data_mean` and `data_stddev` are those of the channels in the
    first batch that the layer sees in training (`fit`, or a call with `training=True`),
    over examples and positions. They are state, saved with the weights, and stay from
    then on: unlike batch normalization the layer is the same map for each example.
    Before that first batch they are 0 and 1.

    log |det| = positions * sum(log_scale - log(data_stddev))

    The layer takes data in: it belongs in a flow from data to noise, as in Glow. A
    density of data is then that of `bl.layers.Reverse(flow)`. In the reverse direction
    it sees no data, and takes no statistics.

    Args:
        epsilon: What is added to the variance of the first batch, positive.
        event_rank: The number of trailing axes that are one example. Defaults to all
            axes of the inputs but the first. Channels are the last.
        **kwargs: As in `keras.Layer`.

    Example:
    >>> layer = bl.layers.ActNorm()
    >>> x = np.random.default_rng(0).normal(5.0, 3.0, size=(100, 8, 8, 2))
    >>> y = layer(x, training=True)
    >>> bool(ops.abs(ops.mean(y)) < 1e-4), bool(ops.abs(ops.std(y) - 1.0) < 1e-4)
    (True, True)

    Reference: Kingma and Dhariwal (2018), Glow: generative flow with invertible 1x1
    convolutions, section 3.1.
    """

    def __init__(self, epsilon=1e-6, event_rank=None, **kwargs):
        super().__init__(event_rank=event_rank, **kwargs)
        if not epsilon > 0:
            raise ValueError(
                f"`epsilon` should be positive. Received: epsilon={epsilon}"
            )
        self.epsilon = epsilon

    def build(self, inputs_shape, context_shape=None):
        """Makes the weights and the state."""
        super().build(inputs_shape)

        def add(name, initializer, *, trainable, shape=(self.num_channels,)):
            return self.add_weight(
                shape,
                initializer,
                name=name,
                trainable=trainable,
                dtype=self.input_dtype,
                autocast=False,
            )

        self.log_scale = add("log_scale", "zeros", trainable=True)
        self.shift = add("shift", "zeros", trainable=True)
        # Trained variables that are assigned to in a call keep that on no JAX trainer.
        self.data_mean = add("data_mean", "zeros", trainable=False)
        self.data_stddev = add("data_stddev", "ones", trainable=False)
        self.is_initialized = add("is_initialized", "zeros", trainable=False, shape=())

    def forward_and_log_det(self, x):
        """Returns y and the log-determinant."""
        mean, stddev = self._statistics(x)
        log_scale = ops.convert_to_tensor(self.log_scale)
        y = (x - mean) * (ops.exp(log_scale) / stddev) + self.shift
        return y, self.at_each_position(ops.sum(log_scale - ops.log(stddev)), x)

    def reverse_and_log_det(self, y):
        """Returns x and the log-determinant."""
        mean, stddev = self._stored()
        log_scale = ops.convert_to_tensor(self.log_scale)
        x = (y - self.shift) * (stddev * ops.exp(-log_scale)) + mean
        return x, self.at_each_position(ops.sum(ops.log(stddev) - log_scale), y)

    def _stored(self):
        return [ops.convert_to_tensor(v) for v in (self.data_mean, self.data_stddev)]

    def _statistics(self, x):
        """The mean and standard deviation: of the data, if they are the first."""
        if not keras_contact.is_training():
            return self._stored()

        def of_data():
            data = ops.stop_gradient(x)
            axes = tuple(range(len(x.shape) - 1))
            mean = ops.mean(data, axis=axes)
            variance = ops.mean(ops.square(data - mean), axis=axes)
            return [mean, ops.sqrt(variance + self.epsilon)]

        is_initialized = ops.convert_to_tensor(self.is_initialized) > 0.5
        mean, stddev = ops.cond(is_initialized, self._stored, of_data)
        self.data_mean.assign(mean)
        self.data_stddev.assign(stddev)
        self.is_initialized.assign(ops.ones((), self.is_initialized.dtype))
        return mean, stddev

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "epsilon": self.epsilon}
