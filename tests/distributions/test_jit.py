"""Compiled programs: distributions are made inside, cross over, and have no sizes."""

import numpy as np
import pytest
from keras import ops

from bayesian_layers import distributions as d
from tests.differentiation import BACKEND, grad, jit
from tests.distributions.table import ROWS

# Made from others, with parameters that are those of their parts.
OF_OTHERS = (
    "Compound",
    "Independent",
    "MixtureSameFamily",
    "Quantized",
    "Reshaped",
    "Transformed",
)
OF_THEMSELVES = [name for name in ROWS if not name.startswith(OF_OTHERS)]


@pytest.mark.parametrize(
    # On TensorFlow the others are compiled below.
    "name",
    [n for n in ROWS if BACKEND != "tensorflow" or n not in OF_THEMSELVES],
)
def test_compiled_with_its_parameters_as_arguments_it_agrees_with_scipy(name):
    row = ROWS[name]
    names = list(row.parameters)

    def program(*parameters):
        distribution = row.make(**dict(zip(names, parameters, strict=True)))
        value = row.values.astype("float32")
        return distribution.log_prob(value), distribution.sample(3, seed=1)

    parameters = [
        ops.convert_to_tensor(v.astype("float32")) for v in row.parameters.values()
    ]
    if BACKEND == "jax":
        # Traced only: what comes out is compared, compiled, in test_against_scipy and
        # test_sample_gradients.
        import jax

        _, sample = jax.eval_shape(program, *parameters)
        assert sample.shape == (3, *row.batch_shape, *row.event_shape)
        return
    log_prob, sample = map(ops.convert_to_numpy, jit(program)(*parameters))
    expected = row.oracle().log_prob(row.values)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    assert sample.shape == (3, *row.batch_shape, *row.event_shape)
    assert np.all(np.isfinite(sample))


@pytest.mark.skipif(BACKEND != "jax", reason="Pytrees are JAX's.")
@pytest.mark.parametrize("name", ROWS)
def test_distributions_cross_jit_as_pytrees(name):
    import jax

    row = ROWS[name]
    distribution = row.distribution()
    leaves, structure = jax.tree.flatten(distribution)
    # A number of a part is a leaf, too, once it is broadcast.
    assert len(leaves) >= len(row.parameters)
    rebuilt = jax.tree.unflatten(structure, leaves)
    assert type(rebuilt) is type(distribution)
    assert rebuilt.batch_shape == distribution.batch_shape
    crossed = jax.jit(lambda q: q)(distribution)
    assert type(crossed) is type(distribution)
    for old, new in zip(leaves, jax.tree.leaves(crossed), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Unknown sizes are TensorFlow's.")
def test_sizes_that_are_known_at_run_time_only():
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1))])
    def program(loc, scale):
        normal = d.Normal(loc, tf.exp(scale))
        assert normal.batch_shape == (None, 3)
        mixture = d.MixtureSameFamily(d.Categorical(logits=loc), normal)
        vectors = d.MultivariateNormalDiag(loc, tf.exp(scale))
        return (
            normal.sample(2, seed=1),
            normal.mean(),
            d.Categorical(logits=loc).sample(4, seed=1),
            mixture.sample(seed=1),
            vectors.log_prob(loc),
            d.Independent(normal, 1).log_prob(loc),
        )

    shapes = [tuple(x.shape) for x in program(tf.zeros((5, 3)), tf.zeros((5, 1)))]
    assert shapes == [(2, 5, 3), (5, 3), (4, 5), (5,), (5,), (5,)]


# Those whose parameters are their own, and not those of their parts.
PLAIN = [
    n for n, row in ROWS.items() if set(row.parameters) <= set(row.family.parameters)
]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Unknown sizes are TensorFlow's.")
@pytest.mark.parametrize("name", OF_THEMSELVES)
def test_all_batch_axes_may_have_sizes_known_at_run_time_only(name):
    import tensorflow as tf

    row = ROWS[name]

    def signature(name, x):
        event = x.shape[x.ndim - row.family.parameters[name].event_rank :]
        return tf.TensorSpec([None] * (x.ndim - len(event)) + list(event))

    @tf.function(input_signature=[signature(*p) for p in row.parameters.items()])
    def program(*parameters):
        distribution = row.make(**dict(zip(row.parameters, parameters, strict=True)))
        methods = {"mean", "variance", "mode", "entropy"} - row.missing
        results = [getattr(distribution, method)() for method in sorted(methods)]
        value = row.values.astype("float32")
        sample = distribution.sample((2, 3), seed=1)
        return distribution.log_prob(value), sample, *results

    log_prob, sample, *_ = program(
        *(x.astype("float32") for x in row.parameters.values())
    )
    expected = row.oracle().log_prob(row.values)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    assert tuple(sample.shape) == (2, 3, *row.batch_shape, *row.event_shape)


@pytest.mark.skipif(BACKEND != "torch", reason="Transformations are torch's.")
@pytest.mark.parametrize("name", ROWS)
def test_torch_transformations_of_log_prob(name):
    import torch

    row = ROWS[name]
    parameters = [torch.tensor(x, dtype=torch.float32) for x in row.parameters.values()]
    values = torch.tensor(row.values, dtype=torch.float32)

    def log_prob(value, *parameters):
        named = dict(zip(row.parameters, parameters, strict=True))
        return row.make(**named).log_prob(value)

    mapped = torch.func.vmap(log_prob, in_dims=(0, *[None] * len(parameters)))
    expected = row.oracle().log_prob(row.values)
    actual = mapped(values, *parameters).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

    def total(*parameters):
        return log_prob(values, *parameters).sum()

    functional = torch.func.grad(total, tuple(range(len(parameters))))(*parameters)
    expected = grad(total, *row.parameters.values())
    for actual, gradient in zip(functional, expected, strict=True):
        np.testing.assert_allclose(actual.numpy(), gradient, rtol=1e-4, atol=1e-4)


def test_a_list_of_tensors_is_a_parameter_too():
    def program(x):
        return d.Normal([x, 2.0 * x], 1.0).mean()

    mean = jit(program)(ops.convert_to_tensor(1.5))
    np.testing.assert_array_equal(ops.convert_to_numpy(mean), [1.5, 3.0])
