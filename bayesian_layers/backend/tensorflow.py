"""The backend functions on TensorFlow."""

import math
import weakref

import keras
import tensorflow as tf
from tensorflow.python.eager import record

from bayesian_layers.backend import blocks, structures
from bayesian_layers.seeds import key_data

digamma = tf.math.digamma
gammainc = tf.math.igamma
gammaincc = tf.math.igammac
lgamma = tf.math.lgamma
ndtri = tf.math.ndtri

# XLA has no samplers of gamma and Poisson noise there.
compiles_gamma_noise = False
maps_models = False


def betainc(a, b, x):
    """Regularized incomplete beta function; differentiable with respect to `x`."""
    # TensorFlow's gradient for a and b is None, which trains as a silent zero: a zero
    # that cannot be differentiated by them is added.
    message = "TensorFlow has no gradient of `betainc` with respect to `a` and `b`."
    result = tf.math.betainc(a, b, x)
    zero = tf.zeros(tf.shape(result), dtype=result.dtype)
    return result + undifferentiable(zero, message, a, b)


@tf.custom_gradient
def log_ndtr(x):
    """Logarithm of the standard normal distribution function, right in both tails."""
    # Abramowitz and Stegun 26.2.12; its terms are below the precision of `x.dtype`
    # from the switch on.
    switch = 20.0 if x.dtype == tf.float64 else 10.0
    tail = tf.minimum(x, -switch)
    inverse_square = 1.0 / tf.square(tail)
    series = tf.zeros_like(x)
    for factor in (11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = -factor * inverse_square * (1.0 + series)
    log_tail = (
        -0.5 * tf.square(tail)
        - tf.math.log(-tail)
        - 0.5 * math.log(2.0 * math.pi)
        + tf.math.log1p(series)
    )
    half = 0.5 * tf.math.erfc(tf.abs(tf.maximum(x, -switch)) / math.sqrt(2.0))
    body = tf.where(x > 0.0, tf.math.log1p(-half), tf.math.log(half))
    result = tf.where(x < -switch, log_tail, body)

    def gradient(upstream):
        log_density = -0.5 * tf.square(x) - 0.5 * math.log(2.0 * math.pi)
        return upstream * tf.exp(log_density - log_ndtr(x))

    return result, gradient


def cholesky(matrix):
    """The lower Cholesky factor, of NaN where there is none."""
    factor = tf.linalg.cholesky(matrix)
    # Where it fails, some elements are no numbers and others are left over.
    diagonal = tf.reduce_sum(tf.linalg.diag_part(factor), axis=-1)
    failed = tf.math.is_nan(diagonal)[..., None, None]
    return tf.where(failed, tf.constant(float("nan"), factor.dtype), factor)


cholesky_inverse = blocks.cholesky_inverse


def diagonal(matrix):
    """The diagonal of matrices `[..., n, n]`."""
    # The derivative of `tf.linalg.diag_part`, which fills a matrix, is slower.
    shape = tf.shape(matrix)
    rows = tf.reshape(matrix, tf.concat([shape[:-2], [shape[-1] ** 2]], axis=0))
    rows = rows[..., :: shape[-1] + 1]
    return tf.ensure_shape(rows, matrix.shape[:-1])


def with_derivative(function, jvp, vjp):
    """Gives `function(constant, *inputs)` a derivative; `constant` has none.

    Args:
        function: From tensors to a tensor.
        jvp: From `(constant, *inputs)` and the tangents of the inputs to the tangent
            of the result; used by other backends.
        vjp: From `(constant, *inputs)` and the gradient with respect to the result to
            a tuple of those with respect to the inputs; used here.
    """

    @tf.custom_gradient
    def differentiable(*inputs):
        def gradient(upstream):
            return (None, *vjp(inputs, upstream))

        return function(*inputs), gradient

    # A variable among the inputs would be taken for one that the function closes over.
    return lambda *inputs: differentiable(*map(tf.convert_to_tensor, inputs))


def pullback(function, *inputs):
    """The values of a function, a list, and what takes their gradients to its inputs.

    Args:
        function: From tensors to a list of tensors.
        *inputs: Tensors of floating point numbers.

    Returns:
        The list, and a function from a list of gradients, one for each value, to a list
        of those with respect to the inputs.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        values = list(function(*inputs))

    def pull(gradients):
        return tape.gradient(
            values, list(inputs), list(gradients), unconnected_gradients="zero"
        )

    return values, pull


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

    @tf.custom_gradient
    def run(*inputs):
        # A tape around it would keep what is computed in here.
        with record.stop_recording():
            values, kept = forward(*inputs)

        def gradient(*gradients):
            # What was kept is not known to depend on the inputs.
            sources = [x for x in inputs if x.dtype.is_floating]
            message = (
                "This gradient cannot be differentiated: its backward pass recomputes "
                "what it needs, and leaves no record of that."
            )
            return [
                None if g is None else undifferentiable(g, message, *sources)
                for g in backward(kept, gradients)
            ]

        return list(values), gradient

    # Variables among the inputs would be taken for ones that the function closes over.
    return lambda *inputs: run(*map(tf.convert_to_tensor, inputs))


def random_gamma(shape, concentration, dtype, seed):
    """Standard gamma noise, with implicit gradients to the concentration."""
    noise = keras.random.gamma(shape, concentration, dtype=dtype, seed=seed)
    # TensorFlow's own gradient is biased for large concentrations: 0.98 at 1e4 and
    # 0.6 at 1e6, where it is 1. There the cube root of the noise is all but normal.
    large = tf.broadcast_to(concentration > 500.0, shape)
    fixed = tf.stop_gradient(noise)
    return tf.where(large, _cube_root_normal(concentration, fixed), noise)


def _cube_root_normal(concentration, noise):
    """Gamma noise with the gradient that the Wilson-Hilferty approximation has."""

    @tf.custom_gradient
    def attach(a):
        def gradient(upstream):
            # x = a c^3, where c = 1 - 1 / (9 a) + z / (3 sqrt(a)) for normal z.
            c = tf.pow(noise / a, 1.0 / 3.0)
            slope = tf.square(c) * (1.5 - 0.5 * c + 1.0 / (6.0 * a))
            return upstream * slope

        return tf.identity(noise), gradient

    return attach(tf.broadcast_to(concentration, tf.shape(noise)))


def random_poisson(shape, rate, dtype, seed):
    """Poisson counts."""
    return tf.random.stateless_poisson(shape, key_data(seed), rate, dtype=dtype)


def undifferentiable(x, message, *sources):
    """Returns `x`; differentiating it, or through `sources`, raises a `ValueError`."""

    @tf.custom_gradient
    def identity(x, *sources):
        def gradient(upstream):
            raise ValueError(message)

        return tf.identity(x), gradient

    return identity(x, *sources)


def is_concrete(x):
    """Whether `x` is an eager tensor or variable, outside of all graphs.

    In a graph a comparison even of such a tensor is symbolic.
    """
    eager = tf.executing_eagerly() and not tf.is_symbolic_tensor(x)
    return tf.is_tensor(x) and eager


def trace_state():
    """An object that equals another one if both were made in the same graph."""
    if tf.executing_eagerly():
        return None
    return weakref.ref(tf.compat.v1.get_default_graph())


def is_compiling():
    """Whether a graph is being made: then what is computed now has no numbers."""
    return not tf.executing_eagerly()


def exports_tensors_only():
    """Whether `torch.export` is at work: not here."""
    return False


def constant(value, dtype):
    """A tensor with numbers in it, also while a graph is being made."""
    with tf.init_scope():
        return keras.ops.convert_to_tensor(value, dtype)


def static_dtype(dtype):
    """A dtype as `tf.stack` and others read it from a variable: a `tf.DType`."""
    return tf.as_dtype(keras.backend.standardize_dtype(dtype))


def static_shape(shape):
    """A shape as the shape of a tensor of this backend: a `tf.TensorShape`."""
    return tf.TensorShape(shape)


register_pytree = structures.register
flatten = structures.flatten
unflatten = structures.unflatten


def compile_inference(function):
    """Compiles a function of tensors that nobody differentiates.

    Arguments and results are any structures with distributions in them. Each set of
    shapes has a graph of its own, as on JAX.
    """
    traced = {}

    def run(*arguments):
        leaves, structure = flatten(arguments)
        shapes = tuple((tuple(leaf.shape), leaf.dtype) for leaf in leaves)
        key = (shapes, repr(structure))
        if key not in traced:
            traced[key] = _trace(function, *arguments)
        graph, structure = traced[key]
        return unflatten(structure, graph(*leaves))

    return run


def output_spec(function, *arguments):
    """Returns what a function returns, with shapes and dtypes in place of tensors."""
    graph, structure = _trace(function, *arguments)
    return unflatten(structure, graph.structured_outputs)


def scan(function, carry, xs):
    """Runs `carry, y = function(carry, x)` over the first axis, and stacks the y."""
    # One after another: TensorFlow would have the memory of ten steps in use at once.
    xs, xs_structure = flatten(xs)
    carry, carry_structure = flatten(carry)
    first = unflatten(xs_structure, [x[0] for x in xs])
    graph, structure = _trace(function, unflatten(carry_structure, carry), first)
    count = len(carry)
    ys = [
        tf.TensorArray(spec.dtype, size=xs[0].shape[0], element_shape=spec.shape)
        for spec in graph.structured_outputs[count:]
    ]

    def body(i, carry, ys):
        outputs = graph(*carry, *(x[i] for x in xs))
        ys = [y.write(i, value) for y, value in zip(ys, outputs[count:], strict=True)]
        return i + 1, list(outputs[:count]), ys

    _, carry, ys = tf.while_loop(
        lambda i, carry, ys: i < xs[0].shape[0],
        body,
        (0, carry, ys),
        parallel_iterations=1,
    )
    return unflatten(structure, [*carry, *(y.stack() for y in ys)])


def _trace(function, *arguments):
    """Returns the graph of a function, of lists of tensors, and what it returns."""
    leaves, argument_structure = flatten(arguments)
    structure = None

    def run(*leaves):
        nonlocal structure
        outputs = function(*unflatten(argument_structure, leaves))
        outputs, structure = flatten(outputs)
        return [tf.convert_to_tensor(output) for output in outputs]

    specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
    graph = tf.function(run, autograph=False).get_concrete_function(*specs)
    return graph, structure


def seed_state(key):
    """Returns two integers from a scalar, or from two integers."""
    key = tf.cast(key, "int64")
    return key if key.shape.rank else tf.stack([key, tf.zeros_like(key)])


def vectorize(function):
    """Maps a function of structures of tensors over their first axis."""
    return lambda arguments: tf.vectorized_map(function, arguments)


def map_draws(function, keys):
    """Runs a function that draws by a key, to a tuple of scalars, for each key."""
    results = [function(key) for key in tf.unstack(keys)]
    return tuple(map(tf.stack, zip(*results, strict=True)))


def is_differentiated(x):
    """Not known here: whoever computes gradients calls the model in training mode."""
    return False


def example_jacobians(function):
    """Makes a function from parameters and a batch to the Jacobians of each example.

    Args:
        function: From a list of tensors, the parameters, and a batch of any structure
            to outputs `[batch, k]`, each of its own example only.

    Returns:
        A function with the same arguments that returns, for each parameter, a tensor
        `[batch, k, *shape of the parameter]`.
    """

    @tf.function(autograph=False)
    def jacobians(parameters, batch):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            outputs = function(parameters, batch)
        return tape.jacobian(outputs, parameters)

    return jacobians
