"""The backend functions on JAX."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import keras
from jax.extend.core import get_opaque_trace_state

from bayesian_layers.backend import blocks
from bayesian_layers.seeds import key_data

betainc = special.betainc
digamma = special.digamma
gammainc = special.gammainc
gammaincc = special.gammaincc
lgamma = special.gammaln
log_ndtr = special.log_ndtr
ndtri = special.ndtri

compiles_gamma_noise = True
maps_models = True


def cholesky(matrix):
    """The lower Cholesky factor, of NaN where there is none."""
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


cholesky_inverse = blocks.cholesky_inverse


def diagonal(matrix):
    """The diagonal of matrices `[..., n, n]`."""
    return jnp.diagonal(matrix, axis1=-2, axis2=-1)


def with_derivative(function, jvp, vjp):
    """Gives `function(constant, *inputs)` a derivative; `constant` has none.

    Args:
        function: From tensors to a tensor.
        jvp: From `(constant, *inputs)` and the tangents of the inputs to the tangent
            of the result; used in both directions, as JAX transposes it.
        vjp: From `(constant, *inputs)` and the gradient with respect to the result to
            a tuple of those with respect to the inputs; used by other backends.
    """
    differentiable = jax.custom_jvp(function)

    @differentiable.defjvp
    def both(primals, tangents):
        return differentiable(*primals), jvp(primals, tangents[1:])

    return differentiable


def pullback(function, *inputs):
    """The values of a function, a list, and what takes their gradients to its inputs.

    Args:
        function: From tensors to a list of tensors.
        *inputs: Tensors of floating point numbers.

    Returns:
        The list, and a function from a list of gradients, one for each value, to a list
        of those with respect to the inputs.
    """
    values, pull = jax.vjp(lambda *inputs: list(function(*inputs)), *inputs)
    return values, lambda gradients: list(pull(list(gradients)))


def with_backward_pass(forward, backward):
    """Gives a function a backward pass that sees nothing but what it keeps for it.

    Args:
        forward: From tensors to a list of tensors, the values, and one of those to
            keep. It reads no other tensors.
        backward: From what was kept and the gradients with respect to the values, of
            which those of integers mean nothing, to those with respect to the inputs,
            a list with `None` where there is none.

    Returns:
        A function from tensors to the list of values.
    """

    @jax.custom_vjp
    def run(*inputs):
        return list(forward(*inputs)[0])

    def run_forward(*inputs):
        values, kept = forward(*inputs)
        return list(values), list(kept)

    def run_backward(kept, gradients):
        return tuple(backward(kept, gradients))

    run.defvjp(run_forward, run_backward)
    return run


def random_gamma(shape, concentration, dtype, seed):
    """Standard gamma noise, with implicit gradients to the concentration."""
    return keras.random.gamma(shape, concentration, dtype=dtype, seed=seed)


def random_poisson(shape, rate, dtype, seed):
    """Poisson counts."""
    data = key_data(seed).astype("uint32")
    key = jax.random.wrap_key_data(data, impl="threefry2x32")
    return jax.random.poisson(key, rate, shape).astype(dtype)


def undifferentiable(x, message, *sources):
    """Returns `x`; differentiating it, or through `sources`, raises a `ValueError`."""

    @jax.custom_vjp
    def identity(x, *sources):
        return x

    def forward(x, *sources):
        return x, None

    def backward(_, cotangent):
        raise ValueError(message)

    identity.defvjp(forward, backward)
    return identity(x, *sources)


def trace_state():
    """An object that equals another one if no trace began or ended in between."""
    return get_opaque_trace_state(convention="bayesian_layers")


_OUTSIDE = trace_state()


def is_concrete(x):
    """Whether `x` is an array with numbers in it, outside of all transformations.

    In a program that is being traced a comparison even of such an array is traced.
    """
    is_array = isinstance(x, jnp.ndarray) and not isinstance(x, jax.core.Tracer)
    return is_array and trace_state() == _OUTSIDE


def is_compiling():
    """Whether a program is being traced: then what is computed now has no numbers."""
    return isinstance(jnp.zeros(()), jax.core.Tracer)


def exports_tensors_only():
    """Whether `torch.export` is at work: not here."""
    return False


def constant(value, dtype):
    """A tensor with numbers in it, also while a program is being traced."""
    with jax.ensure_compile_time_eval():
        return keras.ops.convert_to_tensor(value, dtype)


def static_dtype(dtype):
    """A dtype as `jnp.ones_like` and others read it: a NumPy dtype."""
    return jnp.dtype(keras.backend.standardize_dtype(dtype))


def static_shape(shape):
    """A shape as the shape of an array of this backend: a tuple."""
    return tuple(shape)


def register_pytree(cls, flatten, unflatten):
    """Lets instances of `cls` cross `jax.jit`, `jax.lax.map` and the like."""
    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


flatten = jax.tree_util.tree_flatten
unflatten = jax.tree_util.tree_unflatten


def compile_inference(function):
    """Compiles a function of arrays that nobody differentiates."""
    return jax.jit(function)


def output_spec(function, *arguments):
    """Returns what a function returns, with shapes and dtypes in place of arrays."""
    return jax.eval_shape(function, *arguments)


def scan(function, carry, xs):
    """Runs `carry, y = function(carry, x)` over the first axis, and stacks the y."""
    return jax.lax.scan(function, carry, xs)


def seed_state(key):
    """Returns two integers from a scalar, two integers, or a key of JAX."""
    if jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    key = jnp.asarray(key, "uint32")
    return key if key.ndim else jnp.stack([key, jnp.zeros_like(key)])


def vectorize(function):
    """Maps a function of structures of arrays over their first axis."""
    return jax.vmap(function)


def map_draws(function, keys):
    """Runs a function that draws by a key, to a tuple of scalars, for each key."""
    return jax.vmap(function)(keys)


def is_differentiated(x):
    """Whether a gradient with respect to a tensor is being computed."""
    return type(x).__name__ in ("JVPTracer", "LinearizeTracer")


def example_jacobians(function):
    """Makes a function from parameters and a batch to the Jacobians of each example.

    Args:
        function: From a list of tensors, the parameters, and a batch of any structure
            to outputs `[batch, k]`, each of its own example only.

    Returns:
        A function with the same arguments that returns, for each parameter, a tensor
        `[batch, k, *shape of the parameter]`.
    """

    def of_one(parameters, example):
        batch = jax.tree_util.tree_map(lambda x: x[None], example)
        return function(parameters, batch)[0]

    return jax.jit(jax.vmap(jax.jacrev(of_one), in_axes=(None, 0)))
