"""Data and model parallelism on eight simulated devices, in a process of its own."""

import os
import subprocess
import sys

import keras
import pytest

SCRIPT = """
import bayesian_layers as bl
import keras, numpy as np

devices = keras.distribution.list_devices()
assert len(devices) == 8, devices
x = np.random.default_rng(0).normal(size=(16, 8)).astype("float32")
y = x[:, :1]


def losses(distribution):
    keras.distribution.set_distribution(distribution)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            bl.layers.DenseReparameterization(16, seed=1, name="dense_hidden"),
            bl.layers.DenseFlipout(1, seed=2),
        ]
    )
    bl.scale_kl(model, dataset_size=16)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, shuffle=False)
    return model, history.history["loss"]


_, single = losses(None)
_, data = losses(keras.distribution.DataParallel(devices=devices))
mesh = keras.distribution.DeviceMesh((2, 4), ["batch", "model"], devices)
layout = keras.distribution.LayoutMap(mesh)
layout[".*dense_hidden.*kernel"] = (None, "model")
model, parallel = losses(
    keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")
)
np.testing.assert_allclose(data, single, rtol=1e-4)
np.testing.assert_allclose(parallel, single, rtol=1e-4)
weight = model.layers[0].random_weights["kernel"]
for variable in weight.variables.values():
    assert tuple(variable.value.sharding.spec) == (None, "model"), variable.path
print("sharded")
"""


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras distributes on JAX only."
)
def test_parallel_losses_are_those_of_one_device_and_scales_lie_with_their_kernel():
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip().endswith("sharded"), run.stderr
