import inspect

import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.constructors import CONSTRUCTORS


def test_there_is_one_per_distribution():
    expected = set(bl.distributions.__all__) - {
        "Distribution",
        "constraints",
        "kl_divergence",
        "register_kl",
        "transforms",
        "transform_to",
    }
    assert set(CONSTRUCTORS) == expected
    assert expected < set(bl.__all__)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_signature_and_help_are_those_of_the_distribution(name):
    constructor = getattr(bl, name)
    cls = getattr(bl.distributions, name)
    parameters = list(inspect.signature(constructor).parameters)
    own = list(inspect.signature(cls).parameters)
    assert parameters == [*own, "sample_shape", "value", "name", "seed"]
    documentation = inspect.getdoc(constructor)
    for parameter in parameters:
        assert f"    {parameter}: " in documentation
    assert constructor.__name__ == name


def test_positional_arguments_and_keywords_arrive():
    w = bl.StudentT(3.0, 1.0, scale=2.0, sample_shape=(4,), name="w", seed=1)
    assert tuple(w.shape) == (4,)
    assert w.name == "w"
    assert float(w.distribution.df) == 3.0
    assert float(w.distribution.scale) == 2.0
    again = bl.StudentT(3.0, 1.0, scale=2.0, sample_shape=(4,), seed=1)
    np.testing.assert_array_equal(ops.convert_to_numpy(w), ops.convert_to_numpy(again))


def test_an_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="stddev"):
        bl.Normal(0.0, stddev=1.0)
