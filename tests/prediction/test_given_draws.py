"""Predictions by draws that are given."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 2)).astype("float32")


def model_of(**kwargs):
    return keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(3, activation="tanh"),
            bl.layers.DenseReparameterization(3, activation="tanh", **kwargs),
            bl.layers.DenseReparameterization(1),
        ]
    )


KERNELS = RNG.normal(size=(2, 3, 3, 1)).astype("float32")  # Of the last layer.


def draws_of_last_kernel():
    values = {"dense_reparameterization/kernel": KERNELS}
    return bl.Draws(values, kind="random_weights", positions={next(iter(values)): 1})


def outputs(model, kernel, seed):
    """For one draw: the last kernel as given, the others at their means."""
    weights = [layer.random_weights["kernel"] for layer in model.layers[1:]]
    values = {weights[0]: weights[0].posterior.mean(), weights[1]: kernel}
    with bl.condition(values):
        return ops.convert_to_numpy(model(X))


def test_given_weights_take_the_place_of_draws():
    # All other weights are points: the predictions are those of the draws alone.
    model = model_of(kernel_initializer="trainable_deterministic")
    prediction = bl.predict(
        model, X, batch_size=4, draws=draws_of_last_kernel(), verbose=0
    )
    flat = draws_of_last_kernel().flat()["dense_reparameterization/kernel"]
    expected = np.stack([outputs(model, kernel, 0) for kernel in flat])
    np.testing.assert_allclose(prediction.samples, expected, atol=1e-5)
    assert prediction.num_samples == 6


def test_weights_that_are_not_given_are_drawn():
    model, arguments = model_of(), {"draws": draws_of_last_kernel(), "verbose": 0}
    first, same = (bl.predict(model, X, seed=1, **arguments) for _ in range(2))
    np.testing.assert_array_equal(first.samples, same.samples)
    other = bl.predict(model, X, seed=2, **arguments)
    assert np.all(np.abs(other.samples - first.samples).max(axis=(1, 2)) > 1e-5)
    # And without draws, the program is the one without.
    plain = bl.predict(model, X, num_samples=2, seed=1, verbose=0)
    assert plain.num_samples == 2


def test_fewer_are_taken_evenly_and_from_all_chains():
    model = model_of(kernel_initializer="trainable_deterministic")
    draws = draws_of_last_kernel()
    whole = bl.predict(model, X, draws=draws, verbose=0)
    part = bl.predict(model, X, num_samples=3, draws=draws, verbose=0)
    np.testing.assert_allclose(part.samples, whole.samples[::2], atol=1e-6)
    with pytest.raises(ValueError, match="6 draws.*num_samples=7"):
        bl.predict(model, X, num_samples=7, draws=draws, verbose=0)


def test_variables_of_each_draw_replace_those_of_the_model():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(3, activation="tanh"),
            keras.layers.Dense(1),
            bl.layers.Normal(homoscedastic=True),
        ]
    )
    shapes = [tuple(weight.shape) for weight in model.weights]
    values = {
        f"w{i}": RNG.normal(size=(1, 5, *shape)).astype("float32")
        for i, shape in enumerate(shapes)
    }
    draws = bl.Draws(
        values, kind="weights", positions={f"w{i}": i for i in range(len(shapes))}
    )
    before = model.get_weights()
    prediction = bl.predict(model, X, batch_size=4, draws=draws, verbose=0)
    for kept, weight in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, weight)
    means, variances = [], []
    for draw in range(5):
        model.set_weights([value[0, draw] for value in values.values()])
        output = model(X)
        means.append(ops.convert_to_numpy(output.mean()))
        variances.append(ops.convert_to_numpy(output.variance()))
    np.testing.assert_allclose(prediction.mean, np.mean(means, axis=0), atol=1e-5)
    np.testing.assert_allclose(prediction.epistemic, np.var(means, axis=0), rtol=1e-3)
    np.testing.assert_allclose(
        prediction.aleatoric, np.mean(variances, axis=0), rtol=1e-4
    )


def test_draws_fit_the_model_after_saving_and_loading(tmp_path):
    model = model_of(kernel_initializer="trainable_deterministic")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    first, second = (
        bl.predict(m, X, draws=draws_of_last_kernel(), verbose=0).mean
        for m in (model, loaded)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_draws_of_another_model_or_of_none_are_refused():
    model = keras.Sequential([keras.Input((2,)), bl.layers.DenseFlipout(1)])
    with pytest.raises(ValueError, match="not of this model"):
        bl.predict(model, X, draws=draws_of_last_kernel(), verbose=0)
    with pytest.raises(ValueError, match="belong to no model"):
        bl.predict(model, X, draws=bl.Draws({"w": np.zeros((1, 2))}), verbose=0)
