"""Ensembles in files, and what is no ensemble."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers import backend
from tests.ensemble.networks import (
    NLL,
    X,
    Y,
    assert_same_weights,
    bayesian,
    compile_all,
    fit,
    normalized,
    numpy_of,
    plain,
)


def test_a_loaded_ensemble_predicts_and_trains_on_as_the_saved_one(tmp_path):
    ensemble = bl.Ensemble(normalized, 2, convert="mean")
    compile_all([ensemble], NLL(), lambda: [bl.metrics.NegativeLogLikelihood()])
    fit(ensemble)
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.saving.load_model(tmp_path / "ensemble.keras")
    assert isinstance(loaded, bl.Ensemble)
    assert (loaded.size, loaded.convert) == (2, "mean")
    predictions = [bl.predict(e, X, seed=1, verbose=0) for e in (ensemble, loaded)]
    np.testing.assert_array_equal(predictions[0].mean, predictions[1].mean)
    np.testing.assert_array_equal(predictions[0].epistemic, predictions[1].epistemic)
    # With the state of the optimizer.
    assert fit(ensemble, epochs=1) == fit(loaded, epochs=1)
    assert_same_weights(ensemble.members, loaded.members, atol=1e-6)


def test_weights_and_config_round_trip(tmp_path):
    ensemble = bl.Ensemble(bayesian, 2, name="four")
    bl.scale_kl(ensemble, dataset_size=10)
    other = bl.Ensemble.from_config(ensemble.get_config())
    assert other.name == "four"
    assert np.isclose(other.members[1].layers[0].kl_scale, 0.1)
    ensemble.save_weights(tmp_path / "ensemble.weights.h5")
    other.load_weights(tmp_path / "ensemble.weights.h5")
    assert_same_weights(ensemble.members, other.members)


def test_an_ensemble_that_was_never_built_loads(tmp_path):
    ensemble = bl.Ensemble(lambda: keras.Sequential([keras.layers.Dense(1)]), 2)
    outputs = numpy_of(ensemble(X))
    assert len(ensemble.weights) == 4
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.saving.load_model(tmp_path / "ensemble.keras")
    np.testing.assert_array_equal(numpy_of(loaded(X)), outputs)


def test_members_of_another_architecture_are_refused():
    units = iter([4, 5])
    with pytest.raises(ValueError, match="different weights"):
        bl.Ensemble(
            lambda: keras.Sequential(
                [keras.Input((3,)), keras.layers.Dense(next(units))]
            ),
            2,
        )
    # It has the same weights, and would be trained as if it had the same function.
    activations = iter(["tanh", "relu"])
    with pytest.raises(ValueError, match=r"different configurations: tanh and relu"):
        bl.Ensemble(
            lambda: keras.Sequential(
                [keras.Input((3,)), keras.layers.Dense(4, next(activations))]
            ),
            2,
        )
    layers = iter([keras.layers.ReLU, keras.layers.LeakyReLU])
    with pytest.raises(ValueError, match="different layers"):
        bl.Ensemble(lambda: keras.Sequential([keras.Input((3,)), next(layers)()]), 2)


def test_names_seeds_and_graphs_may_be_counted_up():
    numbers = iter(range(10))

    def build():
        number = next(numbers)
        x = keras.Input((3,))
        dense = keras.layers.Dense(3, name=f"dense_of_{number}")
        h = keras.ops.tanh(dense(x)) + x
        return keras.Model(x, keras.layers.Dropout(0.5, seed=number)(h))

    assert bl.Ensemble(build, 3).size == 3


def test_a_function_that_makes_one_model_only_is_refused():
    model = plain()
    with pytest.raises(ValueError, match="share layers"):
        bl.Ensemble(lambda: model, 2)
    layer = keras.layers.Dense(1)
    with pytest.raises(ValueError, match="share layers"):
        bl.Ensemble(lambda: keras.Sequential([keras.Input((3,)), layer]), 2)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((plain(), 2), TypeError, "`build_model` should be a function"),
        (("plain", 2), TypeError, "`build_model` should be a function"),
        (
            (lambda: keras.layers.Dense(1), 2),
            TypeError,
            "should return a `keras.Model`",
        ),
        ((plain, 0), ValueError, "size=0"),
        ((plain, 2.0), ValueError, "size=2.0"),
    ],
)
def test_wrong_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        bl.Ensemble(*arguments)


def test_an_ensemble_of_ensembles_is_refused():
    with pytest.raises(ValueError, match="single models"):
        bl.Ensemble(lambda: bl.Ensemble(plain, 2), 2)


def test_what_it_converts_to_is_checked():
    with pytest.raises(ValueError, match="convert"):
        bl.Ensemble(plain, 2, convert="median")


def test_members_that_start_equal_are_warned_of():
    def build():
        zeros = keras.layers.Dense(1, kernel_initializer="zeros")
        return keras.Sequential([keras.Input((3,)), zeros])

    ensemble = bl.Ensemble(build, 2)
    compile_all([ensemble], "mse")
    with pytest.warns(UserWarning, match="begin with the same weights"):
        fit(ensemble, epochs=1)


def test_an_optimizer_that_was_used_is_refused():
    model, optimizer = plain(), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    ensemble = bl.Ensemble(plain, 2)
    with pytest.raises(ValueError, match="not used yet"):
        ensemble.compile(optimizer, "mse")


def test_the_optimizer_of_all_updates_members_in_a_loop_by_hand():
    ensemble = bl.Ensemble(plain, 2)
    ensemble.compile(keras.optimizers.SGD(0.5), "mse")
    before = ensemble.get_weights()
    ensemble.optimizer.build(ensemble.trainable_variables)
    gradients = [np.ones(w.shape, "float32") for w in ensemble.trainable_variables]
    gradients = [keras.ops.convert_to_tensor(gradient) for gradient in gradients]
    ensemble.optimizer.apply(gradients, ensemble.trainable_variables)
    for new, old in zip(ensemble.get_weights(), before, strict=True):
        np.testing.assert_allclose(new, old - 0.5, atol=1e-6)
    with pytest.raises(ValueError, match="as many for each of 2 members"):
        ensemble.optimizer.apply(gradients[:-1])


def test_evaluation_needs_no_optimizer(tmp_path):
    ensemble = bl.Ensemble(plain, 2)
    ensemble.compile(None, "mse", metrics=["mae"])
    logs = ensemble.evaluate(X, Y, verbose=0, return_dict=True)
    assert sorted(logs) == ["loss", "mae"]
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.saving.load_model(tmp_path / "ensemble.keras")
    assert loaded.evaluate(X, Y, verbose=0, return_dict=True) == logs


@pytest.mark.skipif(not backend.maps_models, reason="a loop on this backend")
def test_several_devices_are_refused():
    ensemble = bl.Ensemble(plain, 2)
    compile_all([ensemble], "mse")
    devices = keras.distribution.list_devices()[:1]
    keras.distribution.set_distribution(
        keras.distribution.DataParallel(devices=devices)
    )
    try:
        with pytest.raises(ValueError, match="on one device"):
            fit(ensemble)
    finally:
        keras.distribution.set_distribution(None)
