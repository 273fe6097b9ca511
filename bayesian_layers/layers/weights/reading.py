"""The substitution: within a block, attributes of a layer read as other values."""

import contextlib
import threading
import weakref

_locks = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


def _lock(layer):
    """One re-entrant lock per layer, which lives as long as the layer."""
    with _locks_guard:
        return _locks.setdefault(layer, threading.RLock())


def attribute_of(layer, weight):
    """Returns the name of the attribute that a layer reads a weight from."""
    if weight.attribute is None:
        with _lock(layer):
            names = [k for k, v in vars(layer).items() if v is weight.location]
        if not names:
            raise ValueError(
                f"The weight {weight.path!r} is not an attribute of its layer "
                f"{layer.name!r}, and so cannot be read as a random variable."
            )
        weight.attribute = names[0]
    return weight.attribute


@contextlib.contextmanager
def reading(layer, **values):
    """Within the block, attributes of `layer` read as `values`.

    The entries of `vars(layer)` are swapped: past `__setattr__`, so that Keras tracks
    nothing, and back again whatever happens in the block. Names that the layer does
    not have are passed over. A second thread waits until the first is done: otherwise
    it would take a draw for the weight, and put it back as such.
    """
    attributes = vars(layer)
    with _lock(layer):
        values = {name: value for name, value in values.items() if name in attributes}
        kept = {name: attributes[name] for name in values}
        attributes.update(values)
        try:
            yield
        finally:
            attributes.update(kept)
