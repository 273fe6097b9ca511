import keras
import pytest


@pytest.fixture(autouse=True)
def _same_weights_in_each_run():
    """Initial weights differ between runs otherwise, and so what tests see of noise."""
    keras.utils.set_random_seed(0)
