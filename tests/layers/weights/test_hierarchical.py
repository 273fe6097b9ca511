"""Hierarchical priors: the product, its mean, its divergences, and what they prune."""

import keras
import numpy as np
import pytest
from scipy import integrate, stats

import bayesian_layers as bl
from tests.layers.weights.table import OTHERS, array, keras_layer

HIERARCHICAL = [name for name in OTHERS if name.endswith("Hierarchical")]


@pytest.mark.parametrize("name", HIERARCHICAL)
def test_it_is_the_keras_layer_with_the_product_of_what_was_drawn(name):
    row = OTHERS[name]
    model, layer = row.model(name)
    reference = keras_layer(layer)
    reference.build((None, *row.input_shape))
    x = row.inputs()
    with bl.tape() as tape:
        outputs = array(model(x))
    drawn = {path.rpartition("/")[2]: array(value) for path, value in tape.items()}
    kernel = drawn["kernel"] * drawn["local_scale"] * drawn["global_scale"]
    reference.set_weights([kernel, array(layer.bias)])
    np.testing.assert_allclose(outputs, array(reference(x)), atol=1e-5)
    with bl.weights(model, "mean"):
        outputs = array(model(x))
    means = [array(w.posterior.mean()) for w in layer.random_weights.values()]
    reference.set_weights([means[0] * means[1] * means[2], array(layer.bias)])
    np.testing.assert_allclose(outputs, array(reference(x)), atol=1e-5)
    np.testing.assert_allclose(
        array(layer.mean_kernel()), array(reference.kernel), rtol=1e-5
    )


@pytest.mark.parametrize("loc, scale", [(0.0, 0.05), (-2.0, 0.5), (1.5, 1.5)])
def test_the_divergence_from_half_cauchy_is_the_integral(loc, scale):
    penalty = bl.regularizers.HalfCauchyKLDivergence(scale=0.5)
    found = float(array(penalty(bl.LogNormal(loc, scale))))
    q, p = stats.lognorm(scale, scale=np.exp(loc)), stats.halfcauchy(scale=0.5)
    expected = integrate.quad(
        lambda t: (
            stats.norm.pdf(t)
            * (q.logpdf(np.exp(loc + scale * t)) - p.logpdf(np.exp(loc + scale * t)))
        ),
        -8.0,
        8.0,
    )[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_features_without_effect_are_shrunk():
    """Of six inputs one matters: its scale stays, those of the others go down."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 6)).astype("float32")
    y = (2.0 * x[:, :1] + 0.1 * rng.normal(size=(128, 1))).astype("float32")
    layer = bl.layers.DenseHierarchical(1, use_bias=False, seed=1)
    head = bl.layers.GaussianLikelihood(0.01, trainable=False)
    model = keras.Sequential([keras.Input((6,)), layer, head])
    bl.scale_kl(model, dataset_size=128)
    model.compile(keras.optimizers.Adam(0.05), bl.losses.NegativeLogLikelihood())
    # One epoch over copies of the data: epochs have a cost of their own.
    x, y = np.tile(x, (200, 1)), np.tile(y, (200, 1))
    model.fit(x, y, batch_size=128, shuffle=False, verbose=0)
    kernel = array(layer.mean_kernel())[:, 0]
    np.testing.assert_allclose(kernel[0], 2.0, atol=0.2)
    assert np.all(np.abs(kernel[1:]) < 0.15)
    local = array(layer.random_weights["local_scale"].posterior.mean())[:, 0]
    assert np.all(local[1:] < 0.6 * local[0])


def test_what_has_no_mean_or_no_distribution_is_refused():
    layer = bl.layers.DenseHierarchical(
        2, local_scale_initializer="trainable_half_cauchy"
    )
    with pytest.raises(ValueError, match="log-normal.*HalfCauchy for 'local_scale'"):
        layer.build((None, 3))
    with pytest.raises(ValueError, match="distribution of positive numbers"):
        bl.layers.DenseHierarchical(2, global_scale_initializer="ones")
    layer = bl.layers.DenseHierarchical(
        2, kernel_initializer="zeros", kernel_regularizer=None
    )
    with pytest.raises(ValueError, match="a kernel with a distribution"):
        layer.build((None, 3))
