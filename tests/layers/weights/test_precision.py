"""The dtype that is computed in: half precision, and double precision."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests.layers.weights.table import array, set_stddev
from tests.statistics import assert_variance

STDDEV = 0.0486
INPUTS, UNITS, ROWS = 8, 20, 500

# Layers by name, with their arguments and the shape of their inputs.
LOCAL = {
    "DenseLocalReparameterization": ((UNITS,), (INPUTS,)),
    "DenseVariationalDropout": ((UNITS,), (INPUTS,)),
    "Conv1DLocalReparameterization": ((UNITS, 1), (1, INPUTS)),
    "Conv2DVariationalDropout": ((UNITS, 1), (1, 1, INPUTS)),
}


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_in_half_precision_variances_neither_vanish_nor_overflow(name, dtype, size):
    arguments, shape = LOCAL[name]
    layer = getattr(bl.layers, name)(*arguments, use_bias=False, dtype=dtype, seed=2)
    layer.build((None, *shape))
    # For variational dropout log(alpha) = 0, within its bounds.
    layer.kernel.assign(np.full(layer.kernel.shape, STDDEV))
    set_stddev(layer, STDDEV)
    outputs = layer(np.full((ROWS, *shape), size, "float16"))
    assert keras.backend.standardize_dtype(outputs.dtype) == "float16"
    noise = array(outputs).reshape(-1, 1) / size - INPUTS * STDDEV
    # 1.37e-4 for inputs of 1e-3. Of 10,000 numbers: a standard error of 1.4%.
    variance = INPUTS * STDDEV**2
    assert_variance(noise, variance, detect=0.15 * variance)


DOUBLE = """
import keras
import numpy as np
from keras import ops

import bayesian_layers as bl

x = np.random.default_rng(0).normal(size=(4, 3))
for name in ("Reparameterization", "Flipout", "LocalReparameterization"):
    layer = getattr(bl.layers, f"Dense{name}")(2, dtype="float64", kl_scale=0.5)
    reference = keras.layers.Dense(2, dtype="float64")
    for one in (layer, reference):
        one.build((None, 3))
    reference.kernel.assign(np.random.default_rng(1).normal(size=(3, 2)))
    layer.set_weights(reference.get_weights())
    expected = ops.convert_to_numpy(reference(x))

    def check(outputs):
        outputs = ops.convert_to_numpy(outputs)
        assert outputs.dtype == "float64", (name, outputs.dtype)
        error = np.abs(outputs - expected).max()
        assert error < 1e-12, (name, error)

    with bl.weights(layer, "mean"):
        check(layer(x))
    scale = layer.random_weights["kernel"].variables["scale"]
    stored = ops.convert_to_numpy(scale)
    stddev = np.logaddexp(0.0, stored)
    mean = ops.convert_to_numpy(layer.kernel)
    kl = np.sum(0.5 * (mean**2 + stddev**2 - 1.0) - np.log(stddev))
    for found in (bl.total_kl(layer), 2.0 * layer.losses[0]):
        dtype = keras.backend.standardize_dtype(found.dtype)
        assert dtype == "float64", (name, dtype)
        np.testing.assert_allclose(ops.convert_to_numpy(found), kl, rtol=1e-12)
    scale.assign(np.full(scale.shape, -100.0))
    check(layer(x))
print("done")
"""


def test_layers_of_float64_compute_in_float64():
    # Twelve digits of Keras' own layer, which on PyTorch has eight of NumPy's.
    root = pathlib.Path(bl.__file__).parents[1]
    environment = {
        **os.environ,
        "JAX_ENABLE_X64": "1",
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": str(root),
    }
    result = subprocess.run(
        [sys.executable, "-c", DOUBLE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == "done", result.stderr[-3000:]


@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX has no float64 unless told so."
)
def test_layers_of_several_dtypes_have_a_total_divergence():
    layers = [bl.layers.DenseFlipout(2, dtype=d) for d in ("float64", "float32")]
    model = keras.Sequential([keras.Input((3,)), *layers])
    kls = [layer.random_weights["kernel"].kl() for layer in layers]
    np.testing.assert_allclose(
        array(bl.total_kl(model)), sum(map(array, kls)), rtol=1e-5
    )
    assert np.isfinite(array(bl.total_kl(layers[0])))
    assert ops.shape(bl.total_kl(model)) == ()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_posteriors_are_float32_in_layers_of_half_precision(dtype):
    layer = bl.layers.DenseFlipout(2, dtype=dtype)
    layer.build((None, 3))
    weight = layer.random_weights["kernel"]
    for value in (*weight.variables.values(), weight.kl()):
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert keras.backend.standardize_dtype(layer.bias.dtype) == dtype
