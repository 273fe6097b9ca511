"""The loops of the documentation train, with the KL."""

import importlib.util
import pathlib

import keras

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "custom_training"


def test_the_loop_of_this_backend_trains():
    keras.utils.set_random_seed(1)
    path = FOLDER / f"{keras.backend.backend()}_loop.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before, after = module.main()
    # The KL of 16 weights over 128 examples is 0.3; the log-likelihood of noise 0.1
    # is 0.9, so the bound is near -0.6, and a model that learns nothing is above 1.5.
    assert before > 1.5
    assert after < 1.0
