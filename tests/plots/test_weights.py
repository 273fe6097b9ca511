"""Points and histograms of weights, against the variables of the layers."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.initializers import TrainableNormal
from tests.plots.predictions import labels

RNG = np.random.default_rng(0)


def softplus(x):
    return np.logaddexp(0.0, x)


def built(layer, shape=(None, 3)):
    layer.build(shape)
    return layer


def set_moments(layer, name="kernel"):
    """Gives a weight means and scales, and returns both as they should be drawn."""
    variables = layer.random_weights[name].variables
    mean = RNG.normal(size=variables["loc"].shape).astype("float32")
    untransformed = RNG.normal(size=mean.shape).astype("float32") - 2.0
    variables["loc"].assign(mean)
    variables["scale"].assign(untransformed)
    return mean.ravel(), softplus(untransformed).ravel()


def points(collection):
    return np.array(collection.get_offsets())


def heights(patch, edges):
    """The heights of a histogram that is drawn as one outline, from left to right."""
    x, y = patch.get_xy().T
    middles = np.sqrt(edges[:-1] * edges[1:])
    return np.array([y[:-1][(x[:-1] < m) & (m < x[1:])][0] for m in middles])


def test_points_are_means_and_scales_and_histograms_are_of_their_ratios():
    layers = [
        bl.layers.DenseFlipout(40, name="first", bias_initializer="trainable_normal"),
        bl.layers.DenseReparameterization(2, name="second"),
    ]
    model = keras.Sequential([keras.Input((3,)), *layers])
    kernel, bias = set_moments(layers[0]), set_moments(layers[0], "bias")
    first = [np.concatenate(pair) for pair in zip(kernel, bias, strict=True)]
    second = set_moments(layers[1])
    panels = bl.plots.weights(model, bins=10)
    left, right = panels
    ratios = [np.abs(mean) / stddev for mean, stddev in (first, second)]
    both = np.concatenate(ratios)
    edges = np.geomspace(np.quantile(both, 0.005), both.max(), 11)
    for number, (mean, stddev) in enumerate((first, second)):
        expected = np.stack([mean, stddev], axis=1)
        drawn = points(left.collections[number])
        np.testing.assert_allclose(drawn, expected, rtol=1e-5)
        counts = np.histogram(np.maximum(ratios[number], edges[0] * 1.0001), edges)[0]
        drawn = heights(right.patches[number], edges)
        np.testing.assert_allclose(drawn, counts / len(mean), atol=1e-6)
        np.testing.assert_allclose(drawn.sum(), 1.0, atol=1e-6)
    assert labels(right) == ["first, 160", "second, 80"]
    assert left.get_yscale() == right.get_xscale() == "log"
    assert left.get_title() == ""


def test_large_layers_are_drawn_by_the_same_points_each_time():
    layer = built(bl.layers.DenseFlipout(50))
    mean, stddev = set_moments(layer)
    drawn = []
    for _ in range(2):
        left, right = bl.plots.weights(layer, max_points=20)
        drawn.append(points(left.collections[0]))
    np.testing.assert_array_equal(*drawn)
    assert len(np.unique(drawn[0], axis=0)) == 20
    known = np.stack([mean, stddev], axis=1)
    distances = np.abs(drawn[0][:, None] - known).max(axis=-1).min(axis=1)
    assert distances.max() < 1e-5
    assert left.get_title() == "at most 20 points per layer"
    assert right.get_legend() is None


def test_what_has_no_ratio_is_left_out_and_counted():
    layers = [
        bl.layers.DenseReparameterization(2, kernel_initializer="trainable_cauchy"),
        bl.layers.DenseReparameterization(
            3, kernel_initializer="trainable_deterministic", kernel_regularizer=None
        ),
        bl.layers.DenseFlipout(4),
    ]
    model = keras.Sequential([keras.Input((3,)), *layers])
    left, right = bl.plots.weights(model)
    assert left.get_title() == "without 12 weights that have no ratio"
    assert [len(points(c)) for c in left.collections] == [0, 0, 12]
    left.figure.canvas.draw()
    with pytest.raises(ValueError, match="with 6 weights without"):
        bl.plots.weights(layers[0])


def test_a_mean_of_zero_is_counted_in_the_first_bin():
    layer = built(bl.layers.DenseFlipout(2, kernel_initializer="trainable_normal"))
    layer.kernel.assign(np.zeros((3, 2)))
    _, right = bl.plots.weights(layer, bins=4)
    np.testing.assert_allclose(
        heights(right.patches[0], np.geomspace(0.5, 2.0, 5)), [1.0, 0.0, 0.0, 0.0]
    )
    right.figure.canvas.draw()


def test_random_parameters_are_taken_at_their_means_and_nothing_is_drawn():
    layer = built(
        bl.layers.DenseReparameterization(
            2, kernel_initializer=TrainableNormal(mean_initializer=TrainableNormal())
        )
    )
    state = ops.convert_to_numpy(layer.draw_seed_generator.state)
    left, _ = bl.plots.weights(layer)
    kernel = ops.convert_to_numpy(layer.kernel).ravel()
    np.testing.assert_allclose(points(left.collections[0])[:, 0], kernel, rtol=1e-6)
    after = ops.convert_to_numpy(layer.draw_seed_generator.state)
    np.testing.assert_array_equal(after, state)


def test_ensembles_draw_their_factors_but_not_the_choice_of_a_member():
    layer = built(bl.layers.DenseRank1(2, ensemble_size=2))
    left, _ = bl.plots.weights(layer)
    expected = sum(
        int(np.prod(weight.location.shape))
        for weight in layer.random_weights.values()
        if weight.location is not None
    )
    assert len(points(left.collections[0])) == expected > 0


def test_many_layers_have_colours_of_a_map_and_a_short_legend():
    layers = [bl.layers.DenseFlipout(2, name=f"layer{n}") for n in range(11)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    left, right = bl.plots.weights(model)
    colors = {tuple(c.get_facecolor()[0].tolist()) for c in left.collections}
    assert len(colors) == 11
    assert [text.split(",")[0] for text in labels(right)] == [
        f"layer{n}" for n in range(0, 11, 2)
    ]
    assert "1 of 2 layers" in right.get_legend().get_title().get_text()


def test_layers_of_one_name_are_told_apart_by_their_paths():
    def attention(name):
        return bl.layers.MultiHeadAttentionReparameterization(1, 2, name=name)

    inputs = keras.Input((3, 2))
    outputs = attention("b")(attention("a")(inputs, inputs), inputs)
    _, right = bl.plots.weights(keras.Model(inputs, outputs))
    names = [text.split(",")[0] for text in labels(right)]
    assert len(set(names)) == len(names) == 8
    assert all("a/" in name for name in names[:4])


BAD = {
    "no model": (3, {}, TypeError, "Expected a model or a layer"),
    "plain": (keras.layers.Dense(2), {}, ValueError, "distributions over their weigh"),
    "not built": (bl.layers.DenseFlipout(2), {}, ValueError, "that is built"),
    "points": (bl.layers.DenseFlipout(2), {"max_points": 0}, ValueError, "at least 1"),
    "bins": (bl.layers.DenseFlipout(2), {"bins": True}, ValueError, "bins=True"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises(name):
    model, kwargs, error, match = BAD[name]
    with pytest.raises(error, match=match):
        bl.plots.weights(model, **kwargs)
