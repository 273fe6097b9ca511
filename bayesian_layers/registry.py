"""Objects by name: ours first, then those of Keras."""

import re


def snake_case(name):
    """Returns `"trainable_normal"` for `"TrainableNormal"`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def by_name(kind, classes, fallback):
    """Makes a function `get(identifier)` over some classes of ours.

    Args:
        kind: What they are, for the docstring and errors.
        classes: The classes; each is known by its name and by its name in snake case.
        fallback: The like function of Keras, for all else.
    """
    names = {snake_case(cls.__name__): cls for cls in classes}
    known = names | {cls.__name__: cls for cls in classes}

    def get(identifier):
        name, config = _name_and_config(identifier)
        if name in known:
            return known[name].from_config(config)
        try:
            return fallback(identifier)
        except ValueError as error:
            # What a config that is known complains of, is no matter of names.
            if "Could not interpret" not in str(error):
                raise
            raise ValueError(
                f"Unknown {kind} {name or identifier!r}. Expected a name, a config, an "
                f"instance, a callable or `None`. Names are those of Keras and "
                f"{sorted(names)}. Received: {identifier!r}"
            ) from error

    get.__doc__ = f"""Returns a{"n" if kind[0] in "aeiou" else ""} {kind}.

    Args:
        identifier: A name, a config, an instance, a callable, or `None`. Names are
            those of the classes here, as they are or in snake case, then Keras' own.

    Returns:
        A callable, or `None`.
    """
    return get


def _name_and_config(identifier):
    """The name that an identifier goes by, if it is a name or a config without module.

    A config that `keras.saving.serialize_keras_object` made says where its class is
    registered: Keras finds it, ours too, and a user's class with the name of ours.
    """
    if isinstance(identifier, str):
        return identifier, {}
    if isinstance(identifier, dict) and not identifier.get("registered_name"):
        return identifier.get("class_name"), identifier.get("config", {})
    return None, {}
