"""What `bl.mcmc` says on backends that it does not run on."""

import keras
import pytest

import bayesian_layers as bl


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="It runs on JAX.")
def test_on_other_backends_the_error_names_jax_and_what_there_is():
    with pytest.raises(RuntimeError, match="KERAS_BACKEND=jax.*bl.optimizers.SGLD"):
        bl.mcmc(lambda: bl.Normal(0.0, 1.0, name="w"))
