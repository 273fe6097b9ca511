"""What a random weight is drawn from: its posterior, or, in a model, its prior."""

import contextlib

import keras

from bayesian_layers import keras_contact
from bayesian_layers.handlers import is_part_of_programs
from bayesian_layers.trace import role_of, trace, traceable


@contextlib.contextmanager
def role(name: str, model: keras.Layer | None = None):
    """Within the block, layers act as a model, `"prior"`, or as a guide, `"posterior"`.

    As a model a layer draws its random weights from their priors: what the network is
    before it has seen data. As a guide, which layers are outside of all blocks, it
    draws them from their (approximate) posteriors. So one network is both the model and
    the guide of variational inference, and in a log joint its weights count with their
    priors. Every estimator makes one draw of a weight for all of a batch in the role of
    a model. Layers that are distributions given their inputs (output layers, Gaussian
    processes) are the same in both roles, but for their random weights and but for an
    output layer with a `prior`, which draws from that.

    The innermost role counts. It works around calls of layers, programs and
    `bl.predict`; around `predict` and `fit` of Keras if `model` is given, as they run
    what they have compiled before.

    Args:
        name: `"prior"` or `"posterior"`.
        model: The model or layer that has this role. Defaults to all.

    Raises:
        ValueError: When a weight is drawn that has no prior, or one that is no
            distribution.

    Example:
    >>> layer = bl.layers.DenseFlipout(1, use_bias=False)
    >>> layer.build((None, 1))
    >>> x = np.ones((1, 1))
    >>> with bl.role("prior"), bl.tape() as tape:
    ...     y = layer(x)
    >>> kernel, = tape.values()
    >>> round(float(kernel.stddev()[0, 0]), 4)
    1.0
    """
    if name not in ("prior", "posterior"):
        raise ValueError(f'A role is "prior" or "posterior". Received: name={name!r}')

    def is_member(source):
        if model is None:
            return True
        layers = keras_contact.flatten_layers(model)
        return any(layer is source.layer for layer in layers)

    def tracer(f, *args, **kwargs):
        if f is role_of.__wrapped__ and is_member(*args):
            return name
        return traceable(f)(*args, **kwargs)

    def wants(site_name, source):
        if name == "posterior" or not hasattr(source, "proper_prior"):
            return False
        return is_part_of_programs(site_name, source) and is_member(source)

    had = {} if model is None else keras_contact.exchange_compiled_functions(model, {})
    try:
        with trace(tracer, wants):
            yield
    finally:
        if model is not None:
            keras_contact.exchange_compiled_functions(model, had)
