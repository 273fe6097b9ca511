"""The backend functions on PyTorch."""

import keras
import torch

from bayesian_layers.backend import structures
from bayesian_layers.seeds import key_data

digamma = torch.special.digamma
gammainc = torch.special.gammainc
gammaincc = torch.special.gammaincc
lgamma = torch.special.gammaln
log_ndtr = torch.special.log_ndtr
ndtri = torch.special.ndtri

compiles_gamma_noise = True
maps_models = False


def betainc(a, b, x):
    """Regularized incomplete beta function, by its continued fraction.

    PyTorch has none. The fraction (DLMF 8.17.22) converges fast where
    x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) = 1 - I_{1-x}(b, a) is used. It is
    computed in float64: in float32 the logarithms of the gamma function cancel.
    """
    dtype = x.dtype
    a, b, x = torch.broadcast_tensors(a.double(), b.double(), x.double())
    inside = (x > 0.0) & (x < 1.0)
    safe = torch.where(inside, x, 0.5)
    swap = safe > (a + 1.0) / (a + b + 2.0)
    p, q = torch.where(swap, b, a), torch.where(swap, a, b)
    y = torch.where(swap, 1.0 - safe, safe)
    log_front = (
        p * torch.log(y)
        + q * torch.log1p(-y)
        - torch.log(p)
        - (lgamma(p) + lgamma(q) - lgamma(p + q))
    )
    # A few roundings: what is asked for is never reached to the last one.
    tolerance = max(0.01 * torch.finfo(dtype).eps, 8.0 * torch.finfo(x.dtype).eps)
    fraction = torch.exp(log_front) / _beta_continued_fraction(p, q, y, tolerance)
    result = torch.where(swap, 1.0 - fraction, fraction)
    return torch.where(inside, result, torch.clamp(x, 0.0, 1.0)).to(dtype)


def _beta_continued_fraction(a, b, x, tolerance):
    """1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, by the modified Lentz method."""
    tiny = torch.finfo(x.dtype).tiny * 1e4

    def away_from_zero(t):
        return torch.where(torch.abs(t) < tiny, tiny, t)

    result = torch.ones_like(x)
    numerator, denominator = torch.ones_like(x), torch.zeros_like(x)
    # The number of terms needed grows with the square root of the parameters.
    for m in range(2000):
        for d in _beta_coefficients(a, b, x, m):
            denominator = 1.0 / away_from_zero(1.0 + d * denominator)
            numerator = away_from_zero(1.0 + d / numerator)
            change = numerator * denominator
            result = result * change
        if not torch.any(torch.abs(change - 1.0) > tolerance):
            break
    return result


def _beta_coefficients(a, b, x, m):
    """The coefficients d_{2m} (none for m = 0) and d_{2m+1}."""
    odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
    return (odd,) if m == 0 else (even, odd)


def _generator(seed, device):
    if device.type == "meta":
        return None
    first, second = key_data(seed).tolist()
    return torch.Generator(device=device).manual_seed(first << 31 | second)


def cholesky(matrix):
    """The lower Cholesky factor, of NaN where there is none."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where((info > 0)[..., None, None], torch.nan, factor)


cholesky_inverse = torch.cholesky_inverse


def diagonal(matrix):
    """The diagonal of matrices `[..., n, n]`."""
    return torch.diagonal(matrix, dim1=-2, dim2=-1)


def with_derivative(function, jvp, vjp):
    """Gives `function(constant, *inputs)` a derivative; `constant` has none.

    Args:
        function: From tensors to a tensor.
        jvp: From `(constant, *inputs)` and the tangents of the inputs to the tangent
            of the result; used forward.
        vjp: From `(constant, *inputs)` and the gradient with respect to the result to
            a tuple of those with respect to the inputs; used backward.
    """

    class Differentiable(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs):
            result = function(*inputs)
            return result.view_as(result)

        @staticmethod
        def setup_context(context, inputs, output):
            context.save_for_backward(*inputs)
            context.save_for_forward(*inputs)

        @staticmethod
        def backward(context, upstream):
            return (None, *vjp(context.saved_tensors, upstream))

        @staticmethod
        def jvp(context, _, *tangents):
            return jvp(context.saved_tensors, tangents)

    return Differentiable.apply


def pullback(function, *inputs):
    """The values of a function, a list, and what takes their gradients to its inputs.

    Args:
        function: From tensors to a list of tensors.
        *inputs: Tensors of floating point numbers.

    Returns:
        The list, and a function from a list of gradients, one for each value, to a list
        of those with respect to the inputs.
    """
    inputs = [x.detach().requires_grad_() for x in inputs]
    with torch.enable_grad():
        values = list(function(*inputs))

    def pull(gradients):
        pairs = zip(values, gradients, strict=True)
        pairs = [(value, g) for value, g in pairs if value.requires_grad]
        if not pairs:
            return [torch.zeros_like(x) for x in inputs]
        return torch.autograd.grad(
            [value for value, _ in pairs],
            inputs,
            [gradient for _, gradient in pairs],
            allow_unused=True,
            materialize_grads=True,
        )

    return [value.detach() for value in values], pull


class _WithBackwardPass(torch.autograd.Function):
    """The values of `forward`, whose backward pass is `backward`."""

    @staticmethod
    def forward(context, forward, backward, *inputs):
        values, kept = forward(*inputs)
        context.backward_pass = backward
        context.save_for_backward(*kept)
        integers = [value for value in values if not value.is_floating_point()]
        context.mark_non_differentiable(*integers)
        return tuple(values)

    @staticmethod
    def backward(context, *gradients):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "This gradient cannot be differentiated: its backward pass recomputes "
                "what it needs, and leaves no record of that. Received a backward pass "
                "with `create_graph=True`."
            )
        return None, None, *context.backward_pass(context.saved_tensors, gradients)


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
    return lambda *inputs: list(_WithBackwardPass.apply(forward, backward, *inputs))


def random_gamma(shape, concentration, dtype, seed):
    """Standard gamma noise, with implicit gradients to the concentration."""
    concentration = torch.broadcast_to(concentration, shape)
    generator = _generator(seed, concentration.device)
    return torch._standard_gamma(concentration, generator=generator)


def random_poisson(shape, rate, dtype, seed):
    """Poisson counts."""
    rate = torch.broadcast_to(rate, shape).detach()
    return torch.poisson(rate, generator=_generator(seed, rate.device))


def undifferentiable(x, message, *sources):
    """Returns `x`; differentiating it, or through `sources`, raises a `ValueError`."""

    class Identity(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, *sources):
            return x.clone()

        @staticmethod
        def setup_context(context, inputs, output):
            pass

        @staticmethod
        def backward(context, upstream):
            raise ValueError(message)

    return Identity.apply(x, *sources)


def is_concrete(x):
    """Whether `x` is a tensor with numbers in it, outside of `torch.compile`."""
    return (
        isinstance(x, torch.Tensor)
        and not x.is_meta
        and not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )


def trace_state():
    """Equal at all times: what is computed has numbers at once."""


def is_compiling():
    """Whether `torch.compile` is at work."""
    return torch.compiler.is_compiling()


def exports_tensors_only():
    """Whether `torch.export` is at work, which knows no generators of draws."""
    return torch.compiler.is_exporting()


def constant(value, dtype):
    """A tensor with numbers in it, also in Keras' symbolic calls."""
    tensor = keras.ops.convert_to_tensor(value, dtype)
    if not tensor.is_meta:
        return tensor
    with keras.device("cpu"):
        return keras.ops.convert_to_tensor(value, dtype)


def static_dtype(dtype):
    """A dtype as a variable of this backend shows it: a string."""
    return keras.backend.standardize_dtype(dtype)


def static_shape(shape):
    """A shape as the shape of a tensor of this backend: a `torch.Size`."""
    return torch.Size(shape)


register_pytree = structures.register
flatten = structures.flatten
unflatten = structures.unflatten


def compile_inference(function):
    """Returns the function without the record of gradients."""
    return torch.no_grad()(function)


def output_spec(function, *arguments):
    """Returns what a function returns, with shapes and dtypes in place of tensors."""
    # There is no way but to run it.
    leaves, structure = flatten(torch.no_grad()(function)(*arguments))
    specs = [torch.empty_like(leaf, device="meta") for leaf in leaves]
    return unflatten(structure, specs)


def scan(function, carry, xs):
    """Runs `carry, y = function(carry, x)` over the first axis, and stacks the y."""
    xs, xs_structure = flatten(xs)
    columns, structure = None, None
    for i in range(len(xs[0])):
        carry, y = function(carry, unflatten(xs_structure, [x[i] for x in xs]))
        leaves, structure = flatten(y)
        columns = [[] for _ in leaves] if columns is None else columns
        for column, leaf in zip(columns, leaves, strict=True):
            column.append(leaf)
    return carry, unflatten(structure, [torch.stack(column) for column in columns])


def seed_state(key):
    """Returns two integers from a scalar, or from two integers."""
    key = keras.ops.convert_to_tensor(key).to(torch.int32)
    return key if key.ndim else torch.stack([key, torch.zeros_like(key)])


def vectorize(function):
    """Maps a function of structures of tensors over their first axis."""

    # One by one: `torch.vmap` has no rule for attention, nor for seeded noise.
    def mapped(arguments):
        count = len(keras.tree.flatten(arguments)[0])
        return torch.stack([function(row(arguments, i)) for i in range(count)])

    def row(arguments, i):
        return keras.tree.map_structure(lambda x: x[i], arguments)

    return mapped


def map_draws(function, keys):
    """Runs a function that draws by a key, to a tuple of scalars, for each key."""
    return tuple(map(torch.stack, zip(*map(function, keys), strict=True)))


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

    # By examples the forward pass would run in `vmap`, which has no channels-last.
    def jacobians(parameters, batch):
        parameters = [p.detach().requires_grad_() for p in parameters]
        outputs = function(parameters, batch)
        count = outputs.numel()
        basis = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
        found = torch.autograd.grad(
            outputs,
            parameters,
            basis.reshape(count, *outputs.shape),
            is_grads_batched=True,
        )
        return [
            rows.reshape(*outputs.shape, *parameter.shape)
            for rows, parameter in zip(found, parameters, strict=True)
        ]

    return jacobians
