"""Structures with distributions in them cross compiled functions and loops."""

import keras
import numpy as np
from keras import ops

import bayesian_layers as bl
from bayesian_layers import backend
from tests.layers.outputs.table import array

X = np.arange(6.0, dtype="float32").reshape(3, 2)


def heads(x):
    normal = bl.distributions.Normal(x, 2.0)
    mixture = bl.distributions.MixtureSameFamily(
        bl.distributions.Categorical(logits=x),
        bl.distributions.Normal(x, 1.0 + ops.abs(x)),
    )
    return {"b": [normal, x], "a": mixture}


def assert_heads(outputs, x):
    assert isinstance(outputs["a"], bl.distributions.MixtureSameFamily)
    components = outputs["a"].components_distribution
    np.testing.assert_array_equal(array(components.scale), 1.0 + np.abs(x))
    normal, same = outputs["b"]
    assert isinstance(normal, bl.distributions.Normal)
    np.testing.assert_array_equal(array(normal.loc), x)
    np.testing.assert_array_equal(array(same), x)


def test_leaves_are_taken_out_and_put_back():
    tensors, structure = backend.flatten(heads(ops.convert_to_tensor(X)))
    assert len(tensors) == 6
    assert_heads(backend.unflatten(structure, tensors), X)


def test_compiled_functions_return_distributions():
    compiled = backend.compile_inference(heads)
    for x in (X, X[:2] + 1.0, X + 3.0):
        assert_heads(compiled(ops.convert_to_tensor(x)), x)


def test_a_compiled_function_knows_structures_of_equal_shapes_apart():
    compiled = backend.compile_inference(
        lambda tree: tree["x"] if isinstance(tree, dict) else 2.0 * tree[0]
    )
    x = ops.convert_to_tensor(X)
    np.testing.assert_array_equal(array(compiled({"x": x})), X)
    np.testing.assert_array_equal(array(compiled([x])), 2.0 * X)


def test_specs_have_the_shapes_and_classes_of_results():
    spec = backend.output_spec(heads, ops.convert_to_tensor(X))
    assert isinstance(spec["a"], bl.distributions.MixtureSameFamily)
    leaves, _ = backend.flatten(spec["b"])
    assert [tuple(leaf.shape) for leaf in leaves] == [(3, 2), (3, 2), (3, 2)]
    assert keras.backend.standardize_dtype(leaves[0].dtype) == "float32"
    # They are kept: no numbers are.
    assert not any(backend.is_concrete(leaf) for leaf in leaves)


def test_a_scan_carries_and_stacks():
    def run(x):
        def step(carry, row):
            total, count = carry
            normal = bl.distributions.Normal(row, ops.ones_like(row))
            return (total + row, count + 1), (normal, total)

        return backend.scan(step, (ops.zeros((2,)), ops.zeros((), "int32")), x)

    (total, count), (normal, totals) = backend.compile_inference(run)(
        ops.convert_to_tensor(X)
    )
    np.testing.assert_array_equal(array(total), X.sum(axis=0))
    assert int(count) == 3
    np.testing.assert_array_equal(array(normal.loc), X)
    np.testing.assert_array_equal(array(totals), np.cumsum(X, axis=0) - X)


def test_a_scan_without_results_carries():
    carry, results = backend.compile_inference(
        lambda x: backend.scan(lambda c, row: (c + row, []), ops.zeros((2,)), x)
    )(ops.convert_to_tensor(X))
    np.testing.assert_array_equal(array(carry), X.sum(axis=0))
    assert results == []
