"""Derivatives and compilation, the same call on every backend.

The only test module, apart from those of `bayesian_layers.backend`, that imports one.
"""

import warnings

import keras
import numpy as np
from keras import ops

BACKEND = keras.backend.backend()


def has_float64():
    """Whether Keras computes in float64 on this backend.

    On JAX and PyTorch it turns 64 bits into 32 in every other operation.
    """
    return keras.backend.result_type("float64") == "float64"


def value_and_grad(function, *arguments, dtype="float32"):
    """A scalar function of arrays, and its gradient with respect to each of them.

    Args:
        function: From tensors to a scalar tensor.
        *arguments: Arrays.
        dtype: The dtype of the computation.

    Returns:
        The value, a float, and the list of gradients, NumPy arrays; zeros where the
        value does not depend on an argument.
    """
    value, gradients = values_and_grad(function, *arguments, dtype=dtype)
    return float(value), gradients


def values_and_grad(function, *arguments, dtype="float32"):
    """As `value_and_grad`, of a function to any shape: the gradients are of its sum."""
    tensors = [ops.convert_to_tensor(np.asarray(x), dtype) for x in arguments]
    values, gradients = _VALUES_AND_GRAD[BACKEND](function, tensors)
    return ops.convert_to_numpy(values), [ops.convert_to_numpy(g) for g in gradients]


def grad(function, *arguments, **kwargs):
    """The gradients of a scalar function, a list of NumPy arrays."""
    return value_and_grad(function, *arguments, **kwargs)[1]


def differentiate(function, *arguments, dtype="float32"):
    """Differentiates as `grad` does, for what is raised; on JAX without numbers."""
    if BACKEND == "jax":
        import jax

        arguments = [ops.convert_to_tensor(np.asarray(x), dtype) for x in arguments]
        jax.eval_shape(jax.grad(function, range(len(arguments))), *arguments)
    else:
        grad(function, *arguments, dtype=dtype)


def jit(function):
    """The function compiled: by XLA on JAX, as a graph on TensorFlow.

    On PyTorch, which Keras runs eagerly, it is the function itself.
    """
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "tensorflow":
        import tensorflow

        return tensorflow.function(function)
    return function


def run(function, *arguments):
    """The result of a function of arrays, as NumPy arrays, in one call.

    It is compiled on JAX, where the operations one by one would be compiled, too.
    """
    call = jit(function) if BACKEND == "jax" else function
    results = call(*(ops.convert_to_tensor(x) for x in arguments))
    return keras.tree.map_structure(ops.convert_to_numpy, results)


def finite_difference(function, x, step=1e-5):
    """The gradient of a scalar NumPy function of an array, by central differences."""
    x = np.asarray(x, "float64")
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step * max(1.0, abs(x[index]))
        difference = function(x + shift) - function(x - shift)
        result[index] = difference / (2.0 * shift[index])
    return result


def _jax(function, tensors):
    import jax

    def total(*tensors):
        values = function(*tensors)
        return ops.sum(values), values

    argnums = tuple(range(len(tensors)))
    gradients, values = jax.jit(jax.grad(total, argnums, has_aux=True))(*tensors)
    return values, gradients


def _tensorflow(function, tensors):
    import tensorflow

    with tensorflow.GradientTape() as tape:
        for tensor in tensors:
            tape.watch(tensor)
        value = function(*tensors)
    return value, tape.gradient(value, tensors, unconnected_gradients="zero")


def _torch(function, tensors):
    import torch

    tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    value = function(*tensors)
    if not value.requires_grad:
        return value, [torch.zeros_like(tensor) for tensor in tensors]
    gradients = torch.autograd.grad(value.sum(), tensors, allow_unused=True)
    return value.detach(), [
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(tensors, gradients, strict=True)
    ]


_VALUES_AND_GRAD = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}


def jacobian(function, x):
    """The derivatives of a function from vectors to vectors, as a matrix."""
    x = ops.convert_to_tensor(np.asarray(x), "float32")
    if BACKEND == "jax":
        import jax

        return np.asarray(jax.jit(jax.jacrev(function))(x))
    if BACKEND == "tensorflow":
        import tensorflow

        with tensorflow.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        matrix = tape.jacobian(y, x, unconnected_gradients="zero")
        return ops.convert_to_numpy(matrix)
    import torch

    return torch.autograd.functional.jacobian(function, x).detach().numpy()


def second_derivative(function, x):
    """The second derivative of a scalar function at a number."""
    x = ops.convert_to_tensor(x, "float32")
    if BACKEND == "jax":
        import jax

        return float(jax.grad(jax.grad(function))(x))
    if BACKEND == "tensorflow":
        import tensorflow

        with tensorflow.GradientTape() as outer:
            outer.watch(x)
            with tensorflow.GradientTape() as inner:
                inner.watch(x)
                value = function(x)
            first = inner.gradient(value, x)
        return float(outer.gradient(first, x))
    import torch

    x.requires_grad_()
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    return float(torch.autograd.grad(first, x)[0])


def forward_derivative(function, x):
    """The derivative of a scalar function at a number, in forward mode."""
    x = ops.convert_to_tensor(x, "float32")
    if BACKEND == "jax":
        import jax

        return float(jax.jvp(function, (x,), (ops.ones_like(x),))[1])
    from torch.autograd import forward_ad

    with forward_ad.dual_level(), warnings.catch_warnings():
        # PyTorch's own decompositions, as they are first used.
        warnings.filterwarnings("ignore", "`torch.jit.script`", DeprecationWarning)
        value = function(forward_ad.make_dual(x, ops.ones_like(x)))
        return float(forward_ad.unpack_dual(value).tangent)


def native_sin(x):
    """The sine of the backend's own library."""
    if BACKEND == "jax":
        import jax.numpy as library
    elif BACKEND == "tensorflow":
        import tensorflow as library
    else:
        import torch as library
    return library.sin(x)


def shapes_of(function):
    """The shapes of the tensors that a function returns; on JAX nothing is compiled."""
    if BACKEND == "jax":
        import jax

        return [tuple(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(function))]
    return [tuple(ops.shape(value)) for value in function()]


def activation_bytes(layer, x):
    """The memory of activations of a gradient with respect to a layer's weights.

    On JAX that of all that the compiled program keeps besides arguments and results, at
    its peak; on PyTorch that of the tensors that are kept for the backward pass. Not
    known on TensorFlow.
    """
    x = ops.convert_to_tensor(x)
    if BACKEND == "jax":
        import jax

        def loss(trained, state, x):
            y, state = layer.stateless_call(trained, state, x, training=True)
            return ops.mean(ops.square(y)), state

        trained = [v.value for v in layer.trainable_variables]
        state = [v.value for v in layer.non_trainable_variables]
        gradient = jax.jit(jax.grad(loss, has_aux=True))
        compiled = gradient.lower(trained, state, x).compile()
        return compiled.memory_analysis().temp_size_in_bytes
    import torch

    kept = {}
    known = {v.value.untyped_storage().data_ptr() for v in layer.variables}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = layer(x, training=True)
    total = sum(kept.values())
    del y
    return total
