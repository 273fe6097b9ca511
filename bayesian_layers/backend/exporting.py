"""Tensors of TensorFlow, which models are exported to from other backends too."""

import keras


def tensorflow_tensor(value, dtype=None, name=None):
    """Returns a value as a tensor of TensorFlow, whatever the backend.

    In a model that is exported from JAX a value may be one already: `jax2tf` puts its
    symbolic tensors into what the model returned.
    """
    import tensorflow as tf

    if not tf.is_tensor(value):
        value = keras.ops.convert_to_numpy(value)
    return tf.convert_to_tensor(value, dtype=dtype, name=name)
