"""What is private in Keras and touched by us: a named function for each hook."""


def leave_inputs_alone(layer):
    """Stops `Layer.__call__` from turning the inputs of a layer into tensors.

    Both attributes are needed on JAX and torch, where a variable is not a tensor: the
    first is what converts it, the second what refuses it.
    """
    for name in ("_convert_input_args", "_allow_non_tensor_positional_args"):
        if name not in vars(layer):
            raise RuntimeError(
                f"`keras.Layer` has no attribute `{name}` in this version of Keras: "
                "its inputs would lose their distributions. Use a version that "
                "bayesian_layers was tested with."
            )
    layer._convert_input_args = False
    layer._allow_non_tensor_positional_args = True
