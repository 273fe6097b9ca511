"""Sharding: the parameters of a posterior lie as their weight does."""


def take_layout(variable, location):
    """Gives a variable the layout of the weight that it belongs to.

    A `keras.distribution.LayoutMap` matches whole paths: a pattern for `kernel` says
    nothing of `kernel_scale`, which would be replicated on every device.
    """
    layout = getattr(location, "_layout", None)
    if variable is location or layout is None or variable.shape != location.shape:
        return
    variable._layout = layout
    if variable._value is not None:
        variable._direct_assign(variable._value)
