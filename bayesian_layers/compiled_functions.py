"""The functions that a model has compiled, set aside while they do not hold."""

NAMES = ("train_function", "test_function", "predict_function")


def exchange(model, functions):
    """Gives a model other compiled functions, and returns those it had.

    Keras compiles `fit`, `evaluate` and `predict` once, with all that was in force
    then: handlers, losses, metrics. What changes one of these sets the functions
    aside and lets Keras make new ones.

    Args:
        model: A model; one that cannot be trained has none.
        functions: A dictionary by name. Those that are missing are made anew by Keras.
    """
    had = {name: getattr(model, name) for name in NAMES if hasattr(model, name)}
    for name in had:
        setattr(model, name, functions.get(name))
    return had
