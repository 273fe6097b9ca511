"""Every distribution goes through its config, JSON and Keras, and back."""

import json

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from tests.distributions.table import ROWS


@pytest.mark.parametrize("name", ROWS)
def test_config_json_and_keras_objects_round_trip(name):
    distribution = ROWS[name].distribution()
    serialized = keras.saving.serialize_keras_object(distribution)
    assert serialized["registered_name"].startswith("bayesian_layers.distributions>")
    through_json = json.loads(json.dumps(serialized))
    copies = [
        type(distribution).from_config(distribution.get_config()),
        keras.saving.deserialize_keras_object(through_json),
    ]
    for copy in copies:
        assert type(copy) is type(distribution)
        assert copy.dtype == distribution.dtype
        assert copy.batch_shape == distribution.batch_shape
        assert copy.get_config() == distribution.get_config()


@keras.saving.register_keras_serializable("tests")
class Shifted(keras.Layer):
    """Adds the mean of a distribution, which is part of its config."""

    def __init__(self, distribution, **kwargs):
        super().__init__(**kwargs)
        self.distribution = distribution

    def call(self, inputs):
        return inputs + self.distribution.mean()

    def get_config(self):
        config = keras.saving.serialize_keras_object(self.distribution)
        return {**super().get_config(), "distribution": config}

    @classmethod
    def from_config(cls, config):
        config["distribution"] = keras.saving.deserialize_keras_object(
            config["distribution"]
        )
        return cls(**config)


def test_a_distribution_in_a_layer_survives_a_keras_file(tmp_path):
    distribution = bl.distributions.Independent(
        bl.distributions.Normal(np.arange(3.0, dtype="float32"), 1.0), 1
    )
    model = keras.Sequential([keras.Input((3,)), Shifted(distribution)])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0)
    )
