"""Names, configs and callables; ours first, then those of Keras."""

import keras
import pytest

import bayesian_layers as bl
from bayesian_layers.registry import by_name, snake_case
from tests.initializers.checks import config, dense_model


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TrainableNormal", "trainable_normal"),
        ("NormalKLDivergence", "normal_kl_divergence"),
        ("KLDivergence", "kl_divergence"),
        ("Conv2DFlipout", "conv2_d_flipout"),
        ("L2", "l2"),
        ("softplus", "softplus"),
    ],
)
def test_snake_case(name, expected):
    assert snake_case(name) == expected


class Ours:
    def __init__(self, number=1):
        self.number = number

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __call__(self, x):
        return x


get = by_name("regularizer", [Ours], keras.regularizers.get)


@pytest.mark.parametrize("name", ["Ours", "ours"])
def test_a_name_or_a_config_with_it_makes_an_object_of_ours(name):
    assert get(name).number == 1
    assert get({"class_name": name, "config": {"number": 2}}).number == 2
    assert get(name) is not get(name)


def test_a_class_and_an_instance_are_found_as_in_keras():
    instance = Ours(3)
    assert get(instance) is instance
    assert get(Ours).number == 1
    assert get(None) is None
    assert isinstance(get("l2"), keras.regularizers.L2)
    assert get({"class_name": "L2", "config": {"l2": 0.5}}).l2 == 0.5


def test_a_registered_class_of_a_user_with_a_name_of_ours_is_that_of_the_user():
    methods = {"__call__": lambda self, x: 0.0, "get_config": lambda self: {}}
    theirs = type("Ours", (keras.regularizers.Regularizer,), methods)
    keras.saving.register_keras_serializable("tests")(theirs)
    assert type(get(config(theirs()))) is theirs


GETS = {
    "initializer": bl.initializers.get,
    "regularizer": bl.regularizers.get,
    "constraint": bl.parameterizations.get,
}
every_get = pytest.mark.parametrize("kind", GETS)
UNKNOWN = {
    "a name": "nothing",
    "a config": {"class_name": "nothing", "config": {}},
    "a registered config": {
        "class_name": "Nothing",
        "config": {},
        "module": "somewhere",
        "registered_name": "somewhere>nothing",
    },
    "a lambda": {"class_name": "__lambda__", "config": {"value": "nothing"}},
    "a number": 3,
}


@every_get
@pytest.mark.parametrize("form", UNKNOWN)
def test_what_is_unknown_is_an_error_that_shows_it_and_the_known_names(kind, form):
    with pytest.raises(ValueError, match=f"Unknown {kind}") as error:
        GETS[kind](UNKNOWN[form])
    assert repr(UNKNOWN[form]) in str(error.value)
    known = {"initializer": "trainable_normal", "regularizer": "normal_kl_divergence"}
    assert known.get(kind, "softplus") in str(error.value)


@every_get
def test_it_says_what_it_takes(kind):
    word = "parameterization" if kind == "constraint" else kind
    assert f"{word}." in GETS[kind].__doc__.splitlines()[0]


def test_what_a_known_config_complains_of_is_not_hidden():
    posterior = {"class_name": "TrainableLowRankNormal", "config": {"rank": 0}}
    with pytest.raises(ValueError, match="positive integer. Received: 0"):
        bl.initializers.get(posterior)
    registered = config(bl.initializers.TrainableLowRankNormal())
    registered["config"]["rank"] = 0
    with pytest.raises(ValueError, match="positive integer. Received: 0"):
        bl.initializers.get(registered)


def test_a_prior_by_name_only_is_an_error_that_asks_for_it():
    with pytest.raises(ValueError, match="needs a prior"):
        bl.regularizers.get("kl_divergence")


@pytest.mark.parametrize("known", ["TrainableNormal", "NormalKLDivergence"])
def test_a_model_does_not_load_with_an_unknown_name(known):
    text = dense_model().to_json()
    assert known in text
    # Keras says which layer it was, in an error of its own.
    with pytest.raises(TypeError, match=r"DenseReparameterization(.|\n)*Unknown \w+"):
        keras.models.model_from_json(text.replace(known, "Nothing"))


def test_a_file_with_a_lambda_does_not_load(tmp_path):
    model = dense_model(kernel_regularizer=lambda weight: 0.0)
    with pytest.warns(UserWarning, match="lambda"):
        model.save(tmp_path / "model.keras")
    with pytest.raises((ValueError, TypeError), match="lambda"):
        keras.saving.load_model(tmp_path / "model.keras")
