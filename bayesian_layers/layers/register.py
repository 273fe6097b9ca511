"""Registration of layers for Keras' serialization."""

import keras

register = keras.saving.register_keras_serializable("bayesian_layers.layers")
