"""What `keras.ops` lacks, from the library of the backend that Keras runs on.

This package is the only place that imports a backend. Each of its modules defines
the same functions; the one that belongs to `keras.backend.backend()` is used:

- special functions: `lgamma`, `digamma`, `betainc`, `gammainc`, `gammaincc`,
  `log_ndtr`, `ndtri`;
- samplers: `random_gamma` (differentiable with respect to the concentration) and
  `random_poisson`;
- `cholesky(matrix)`: with NaN, and no exception, where there is no factor;
  `cholesky_inverse(tril)`: the inverse of the matrix, from its factor;
  `diagonal(matrix)`: that of `[..., n, n]`, with a fast backward pass;
- `with_derivative(function, jvp, vjp)`: a function with a derivative of its own;
- `with_backward_pass(forward, backward)`: a function that keeps for its derivative
  what it says; `pullback(function, *inputs)`: the derivative of one in there;
- `undifferentiable(x, message, *sources)`: the identity, whose differentiation with
  respect to `x`, or to a source that `x` was made from, raises;
- `is_concrete(x)`: whether the numbers in a tensor can be looked at now;
- `is_compiling()`: whether a program is being traced; `trace_state()`: which one;
- `exports_tensors_only()`: whether a model is being exported that may return nothing
  else, and draw nothing;
- `is_differentiated(x)`: whether a gradient by a tensor is being computed, on JAX;
- `constant(value, dtype)`: a tensor that outlives the trace that it is made in;
- `static_shape(shape)`, `static_dtype(dtype)`: as a `keras.Variable` has to show them;
- `register_pytree(cls, flatten, unflatten)`: makes a class part of the structures that
  the following take and return; `flatten(tree)`, `unflatten(structure, leaves)`;
- `seed_state(key)`: a key, traced or not, as the state of a seed generator;
- `map_draws(function, keys)`: the results, scalars, of a function that draws by a key;
- `vectorize(function)`: from a structure to a tensor, over one more leading axis;
- `maps_models`: whether a train step is a function of its state, and `vectorize` takes
  models of one architecture as one;
- `compiles_gamma_noise`: whether the samplers above can be compiled by XLA;
- `compile_inference(function)`, and `scan(function, carry, xs)` to use in it;
- `example_jacobians(function)`: the derivatives of each example by parameters;
- `output_spec(function, *arguments)`: shapes and dtypes of what a function returns;
- `tensorflow_tensor(value, dtype, name)`: for models that are exported to TensorFlow.
"""

import keras

from bayesian_layers.backend import exporting as _exporting

if keras.backend.backend() == "jax":
    from bayesian_layers.backend import jax as _implementation
elif keras.backend.backend() == "tensorflow":
    from bayesian_layers.backend import tensorflow as _implementation
elif keras.backend.backend() == "torch":
    from bayesian_layers.backend import torch as _implementation
else:
    raise ImportError(
        "bayesian_layers runs on the Keras backends 'jax', 'tensorflow' and 'torch'. "
        f"Received: keras.backend.backend()={keras.backend.backend()!r}"
    )

betainc = _implementation.betainc
cholesky = _implementation.cholesky
cholesky_inverse = _implementation.cholesky_inverse
compile_inference = _implementation.compile_inference
compiles_gamma_noise = _implementation.compiles_gamma_noise
constant = _implementation.constant
diagonal = _implementation.diagonal
digamma = _implementation.digamma
example_jacobians = _implementation.example_jacobians
exports_tensors_only = _implementation.exports_tensors_only
flatten = _implementation.flatten
gammainc = _implementation.gammainc
gammaincc = _implementation.gammaincc
is_compiling = _implementation.is_compiling
is_concrete = _implementation.is_concrete
is_differentiated = _implementation.is_differentiated
lgamma = _implementation.lgamma
log_ndtr = _implementation.log_ndtr
map_draws = _implementation.map_draws
maps_models = _implementation.maps_models
ndtri = _implementation.ndtri
output_spec = _implementation.output_spec
pullback = _implementation.pullback
random_gamma = _implementation.random_gamma
random_poisson = _implementation.random_poisson
register_pytree = _implementation.register_pytree
scan = _implementation.scan
seed_state = _implementation.seed_state
static_dtype = _implementation.static_dtype
static_shape = _implementation.static_shape
tensorflow_tensor = _exporting.tensorflow_tensor
trace_state = _implementation.trace_state
undifferentiable = _implementation.undifferentiable
unflatten = _implementation.unflatten
vectorize = _implementation.vectorize
with_backward_pass = _implementation.with_backward_pass
with_derivative = _implementation.with_derivative
