"""Warm start: the weights of a deterministic model as means of a Bayesian one."""

from pathlib import Path

import keras

from bayesian_layers import keras_contact


def load_deterministic_weights(model: keras.Model, filepath: str | Path) -> None:
    """Loads the weights of the deterministic twin of a model as means.

    The file is that of a model of the same architecture with Keras' layers in the place
    of ours (`save_weights` or `save`): what was trained before its layers were made
    Bayesian. Weights that are random get their means from it, all others their values;
    scales stay as they are. Layers are matched by structure, as Keras would load the
    file into the twin: also if only some layers are Bayesian.

    Args:
        model: A model, built.
        filepath: A `.weights.h5` or `.keras` file.

    Raises:
        ValueError: If the file is that of another architecture.

    Example:
    >>> import os, tempfile
    >>> twin = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> path = os.path.join(tempfile.mkdtemp(), "twin.weights.h5")
    >>> twin.save_weights(path)
    >>> model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(2)])
    >>> bl.load_deterministic_weights(model, path)
    >>> bool(np.all(twin.get_weights()[0] == model.get_weights()[0]))
    True
    """
    if not model.built:
        raise ValueError(
            "Expected a model that is built: it has no weights before. Call it on data "
            f"or give it an input shape. Received: {model!r}"
        )
    names = {}
    for layer in keras_contact.flatten_layers(model):
        counterpart = getattr(layer, "keras_counterpart", None)
        if counterpart is not None:
            names[type(layer)] = counterpart.__name__
    with keras_contact.filed_under(names):
        model.load_weights(filepath)
