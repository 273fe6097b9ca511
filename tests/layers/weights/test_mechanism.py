"""The substitution of draws for weights: what it must never leave behind."""

import threading

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers.random_weights.substitution import call_with
from tests.layers.weights.table import array


def dense(**kwargs):
    layer = bl.layers.DenseReparameterization(2, **kwargs)
    layer.build((None, 3))
    return layer


def assert_untouched(layer):
    assert any(layer.kernel is variable for variable in layer.trainable_variables)
    assert isinstance(layer.kernel, keras.Variable)


def test_outside_of_a_call_the_kernel_is_the_posterior_mean():
    layer = dense()
    layer(np.ones((1, 3)))
    assert_untouched(layer)
    distribution = layer.random_weights["kernel"].posterior
    np.testing.assert_array_equal(array(layer.kernel), array(distribution.mean()))


def test_a_call_with_other_values_changes_nothing_but_what_it_sets_itself():
    layer = dense()
    kernel = layer.kernel

    def call(layer, inputs, *, outer):
        assert layer.kernel == "outer"
        inner = call_with(layer, lambda layer: layer.kernel, (), {}, {"_kernel": 2})
        assert (inner, layer.kernel) == (2, "outer")
        layer.remembered = inputs + outer
        return layer.remembered

    assert call_with(layer, call, (1,), {"outer": 2}, {"_kernel": "outer"}) == 3
    assert layer.kernel is kernel
    assert layer.remembered == 3
    assert not layer._is_substituted
    with pytest.raises(AttributeError, match="missing"):
        call_with(layer, call, (1,), {"outer": 2}, {"missing": 1})


def test_an_exception_inside_of_a_call_leaves_the_weights():
    def fail(x):
        raise RuntimeError("activation")

    layer = dense(activation=fail)
    with pytest.raises(RuntimeError, match="activation"):
        layer(np.ones((1, 3), "float32"))
    assert_untouched(layer)


@pytest.mark.parametrize("name", ["DenseReparameterization", "DenseFlipout"])
def test_compiled_and_eager_calls_leave_nothing_behind(name):
    layer = getattr(bl.layers, name)(2, kl_scale=1.0)
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse")
    x = np.ones((4, 3), "float32")
    for _ in range(2):
        model.fit(x, np.ones((4, 2)), verbose=0)
        model.predict(x, verbose=0)
        assert np.all(np.isfinite(array(model(x))))
        assert_untouched(model.layers[0])


@pytest.mark.parametrize("name", ["DenseReparameterization", "DenseFlipout"])
def test_threads_that_call_one_model_leave_its_weights(name):
    # 8 threads, 200 eager calls each.
    model = keras.Sequential([keras.Input((3,)), getattr(bl.layers, name)(2)])
    (layer,) = model.layers
    kernel, before = layer.kernel, array(layer.kernel)
    x, errors = np.ones((1, 3), "float32"), []

    def call():
        try:
            for _ in range(200):
                model(x)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert layer.kernel is kernel
    assert_untouched(layer)
    np.testing.assert_array_equal(array(layer.kernel), before)


def test_threads_never_see_the_mean_in_place_of_a_draw():
    layer = dense(use_bias=False)
    layer.random_weights["kernel"].variables["scale"].assign(ops.full((3, 2), 5.0))
    mean = array(layer.kernel).sum(axis=0)
    outputs = []

    def call():
        for _ in range(25):
            outputs.append(array(layer(np.ones((1, 3), "float32")))[0])

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A draw with a standard deviation of 8.7 is this close to its mean, in both
    # elements, with a probability below 1e-8.
    assert min(np.abs(output - mean).max() for output in outputs) > 1e-3


def test_draws_have_the_names_of_the_calls_under_way():
    inner = keras.Sequential(
        [keras.Input((3,)), bl.layers.DenseFlipout(2, name="head")], name="inner"
    )
    model = keras.Sequential([keras.Input((3,)), inner], name="outer")
    with bl.tape() as tape:
        model(np.ones((1, 3)))
    assert list(tape) == ["outer/inner/head/kernel"]


@pytest.mark.parametrize(
    "name", ["DenseReparameterization", "DenseFlipout", "DenseLocalReparameterization"]
)
def test_a_conditioned_kernel_is_the_kernel(name):
    layer = getattr(bl.layers, name)(2, use_bias=False)
    layer.build((None, 3))
    kernel = np.arange(6.0, dtype="float32").reshape(3, 2)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    with bl.condition({layer.random_weights["kernel"]: kernel}):
        np.testing.assert_allclose(array(layer(x)), x @ kernel, rtol=1e-5)


def test_time_distributed_is_refused():
    layer = keras.layers.TimeDistributed(bl.layers.DenseReparameterization(2))
    with pytest.raises(ValueError, match="inputs with a time axis"):
        layer(np.ones((2, 4, 3), "float32"))


def test_stateless_call_works_on_a_bare_layer():
    layer = dense(seed=1)
    states = [layer.trainable_variables, layer.non_trainable_variables]
    values = [
        [array(v) if "seed" not in v.path else v.value for v in s] for s in states
    ]
    outputs, _ = layer.stateless_call(*values, np.ones((4, 3), "float32"))
    assert ops.shape(outputs) == (4, 2)


def test_layers_with_neighbouring_seeds_draw_apart():
    draws = []
    for seed in (1, 2):
        layer = bl.layers.DenseReparameterization(
            50, seed=seed, use_bias=False, kernel_initializer=zero_mean()
        )
        layer.build((None, 10))
        x = np.eye(10, dtype="float32")
        draws.append(np.stack([array(layer(x)).ravel() for _ in range(3)]))
    # Independent draws of 500 numbers: correlations beyond 0.25 have 2e-8.
    for first in draws[0]:
        for second in draws[1]:
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.25


def zero_mean():
    return bl.initializers.TrainableNormal(mean_initializer="zeros")


def test_lora_is_part_of_the_mean_and_of_the_divergence():
    for name in ("DenseReparameterization", "DenseFlipout", "Conv1DFlipout"):
        arguments = {"kernel_size": 2} if name.startswith("Conv") else {}
        layer = getattr(bl.layers, name)(
            2, kernel_initializer="trainable_normal", **arguments
        )
        shape = (4, 5, 3) if arguments else (4, 3)
        layer.build((None, *shape[1:]))
        layer.enable_lora(1)
        layer.lora_kernel_b.assign(10.0 * ops.ones(layer.lora_kernel_b.shape))
        assert not layer._kernel.trainable
        mean, weight = array(layer.kernel), layer.random_weights["kernel"]
        (loss,) = layer.losses
        # KL(Normal(m, 0.0486) || Normal(0, 1)) = 2.5256 + m**2 / 2.
        expected_kl = 2.5256 * mean.size + 0.5 * np.sum(mean**2)
        np.testing.assert_allclose(array(loss), expected_kl, rtol=1e-4)
        x = np.ones(shape, "float32")
        scale = weight.variables["scale"]
        scale.assign(ops.full(scale.shape, -100.0))
        with bl.condition({weight: mean}):
            np.testing.assert_allclose(array(layer(x)), expected(layer, x), rtol=1e-5)
        np.testing.assert_allclose(array(layer(x)), expected(layer, x), rtol=1e-5)
        # Only what LoRA adds is trained: the divergence depends on it.
        scale.trainable = False
        assert len(layer.losses) == 1


def test_the_divergence_is_there_while_anything_of_it_is_trained():
    layer = dense()
    variables = layer.random_weights["kernel"].variables
    variables["scale"].trainable = False
    assert len(layer.losses) == 1
    variables["loc"].trainable = False
    assert layer.losses == []
    variables["scale"].trainable = True
    assert len(layer.losses) == 1


def expected(layer, x):
    """The outputs with the kernel and its low-rank addition, at the mean."""
    kernel = array(layer.kernel)
    if kernel.ndim == 2:
        return x @ kernel
    windows = np.stack([x[:, i : i + 2] for i in range(x.shape[1] - 1)], axis=1)
    return np.einsum("btkc,kcf->btf", windows, kernel)


def test_flipout_and_local_estimators_refuse_dependent_posteriors():
    for name, posterior in [
        ("DenseFlipout", "trainable_multivariate_normal"),
        ("Conv2DFlipout", "trainable_log_normal"),
        ("DenseLocalReparameterization", "trainable_cauchy"),
    ]:
        arguments = (2, 2) if name.startswith("Conv") else (2,)
        layer = getattr(bl.layers, name)(*arguments, kernel_initializer=posterior)
        with pytest.raises(ValueError, match=r"needs a kernel with .*Use \w+Reparam"):
            layer.build((None, 4, 4, 1) if name.startswith("Conv") else (None, 3))


def test_einsum_dense_starts_its_mean_as_keras_does():
    shape = (64, 4, 8)
    ours = bl.layers.EinsumDenseReparameterization("abc,cde->abde", (None, 4, 8))
    ours.build((None, 5, shape[0]))
    limit = np.sqrt(6.0 / (64 + 4 * 8))
    values = np.abs(array(ours.kernel))
    # Of 2048 uniform values the largest is within 2% of the limit but for 1e-18.
    assert 0.98 * limit < values.max() <= limit


def test_einsum_dense_starts_a_given_mean_as_keras_does():
    posterior = bl.initializers.TrainableNormal(mean_initializer="he_normal")
    ours = bl.layers.EinsumDenseFlipout(
        "abc,cde->abde", (None, 4, 8), kernel_initializer=posterior
    )
    ours.build((None, 5, 64))
    # 2048 draws of standard deviation sqrt(2 / 64): an error of 10% is 6 standard
    # errors, which are 1.6% each.
    stddev = array(ours.kernel).std()
    np.testing.assert_allclose(stddev, np.sqrt(2.0 / 64.0), rtol=0.1)


def test_einsum_flipout_refuses_equations_that_mix_examples():
    layer = bl.layers.EinsumDenseFlipout("ab,abc->ac", (3,))
    layer.build((2, 4))
    with pytest.raises(ValueError, match="counts the examples"):
        layer(np.ones((2, 4), "float32"))


def test_variational_dropout_tells_its_sparsity():
    layer = bl.layers.DenseVariationalDropout(2)
    layer.build((None, 4))
    layer.kernel.assign([[1.0, 1.0], [1.0, 1.0], [1e-4, 1e-4], [1e-4, 1e-4]])
    assert layer.sparsity() == 0.5
    assert array(layer.log_alpha()).max() <= 8.001
