"""The functions that a model has compiled, set aside while they do not hold."""

import functools

FUNCTIONS = ("train_function", "test_function", "predict_function")
STEPS = ("train_step", "test_step", "predict_step")


def exchange(model, functions):
    """Gives a model other compiled functions, and returns those it had.

    Keras compiles `fit`, `evaluate` and `predict` once, with all that was in force
    then: handlers, losses, metrics. What changes one of these sets the functions
    aside and lets Keras make new ones.

    Args:
        model: A model; a layer that cannot be trained has none.
        functions: What `exchange` returned before, or an empty dictionary: then Keras
            makes all of them anew.
    """
    if not hasattr(model, "train_function"):
        return {}
    had = {name: getattr(model, name) for name in FUNCTIONS}
    had.update({name: vars(model).pop(name, None) for name in STEPS})
    for name in FUNCTIONS:
        setattr(model, name, functions.get(name))
    for name in STEPS:
        step = functions.get(name)
        if not functions and hasattr(model, name):
            # JAX would find what it compiled for the method, which equals itself.
            step = functools.partial(getattr(type(model), name), model)
        if step is not None:
            vars(model)[name] = step
    return had
