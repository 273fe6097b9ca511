"""The warnings about training that would not do what was meant."""

import warnings

import keras
import numpy as np
import pytest

import bayesian_layers as bl

X = np.ones((4, 3), "float32")
Y = np.ones((4, 1), "float32")


def make_model(optimizer="sgd", *, is_built=True, **kwargs):
    model = keras.Sequential(
        [
            bl.layers.DenseFlipout(2, **kwargs),
            bl.layers.DenseReparameterization(1, **kwargs),
        ]
    )
    if is_built:
        model.build((None, 3))
    if optimizer is not None:
        model.compile(optimizer, "mse")
    return model


def fit(model, **kwargs):
    model.fit(X, Y, verbose=0, **kwargs)


def messages(function):
    """The warnings that a function gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    ours = [w for w in caught if "bl.scale_kl" in str(w.message)]
    decay = [w for w in caught if "exclude_from_weight_decay" in str(w.message)]
    return ours, decay


# A test fails if anything warns: those that call `fit` bare assert that nothing does.


@pytest.mark.parametrize("is_built", [True, False], ids=["built", "unbuilt"])
def test_an_unscaled_divergence_warns_once_for_each_model(is_built):
    model = make_model(is_built=is_built)
    unscaled, decay = messages(lambda: (fit(model, epochs=2), fit(model)))
    (warning,) = unscaled
    assert decay == []
    assert warning.category is UserWarning
    assert f"of {model.name!r}" in str(warning.message)


def test_a_scaled_divergence_does_not_warn():
    model = make_model()
    bl.scale_kl(model, dataset_size=4)
    fit(model)


def test_a_scale_given_by_argument_does_not_warn():
    fit(make_model(kl_scale=1.0))


@pytest.mark.parametrize("is_built", [True, False], ids=["built", "unbuilt"])
def test_a_schedule_does_not_warn(is_built):
    fit(
        make_model(is_built=is_built),
        callbacks=[bl.callbacks.KLSchedule(dataset_size=4)],
    )


def test_weights_without_a_penalty_do_not_warn():
    fit(make_model(kernel_regularizer=None))


def test_layers_whose_weights_are_known_do_not_warn():
    fit(make_model(kernel_initializer="glorot_uniform", kernel_regularizer=None))


def test_a_divergence_scaled_by_its_regularizer_does_not_warn():
    penalty = bl.regularizers.NormalKLDivergence(scale_factor=0.25)
    fit(make_model(kernel_regularizer=penalty))


def test_a_model_with_a_loss_of_its_own_does_not_warn():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = bl.layers.DenseFlipout(1)

        def call(self, inputs):
            return self.dense(inputs)

        def compute_loss(self, x, y, y_pred, *args, **kwargs):
            return keras.ops.mean((y - y_pred) ** 2) + bl.total_kl(self) / 4

    model = Own()
    model.compile("sgd")
    fit(model)


def test_a_model_that_does_not_know_of_training_warns():
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = bl.layers.DenseFlipout(1)

        def call(self, inputs):
            return self.dense(inputs)

    model = Plain()
    model.compile("sgd", "mse")
    unscaled, _ = messages(lambda: fit(model))
    # Elsewhere it is only seen in training mode, which such a model is not told of.
    assert len(unscaled) == (keras.backend.backend() == "jax")


def test_recurrent_layers_warn_once():
    model = keras.Sequential([keras.Input((5, 3)), bl.layers.GRUReparameterization(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 5, 3), "float32")
    unscaled, _ = messages(lambda: model.fit(x, Y, epochs=2, verbose=0))
    assert len(unscaled) == 1


def test_weight_decay_of_scales_warns_until_they_are_excluded():
    model = make_model("adamw", kl_scale=1.0)
    with pytest.warns(UserWarning, match="AdamW.*exclude_from_weight_decay"):
        fit(model)
    optimizer = keras.optimizers.AdamW()
    optimizer.exclude_from_weight_decay(var_names=["_scale$"])
    fit(make_model(optimizer, kl_scale=1.0))


def test_weight_decay_of_factors_and_priors_warns():
    model = make_model(
        "adamw",
        kl_scale=1.0,
        kernel_regularizer="trainable_normal_kl_divergence_stddev",
    )
    with pytest.warns(UserWarning, match="'kernel_prior_stddev\\$', 'kernel_scale\\$'"):
        fit(model)
    layer = bl.layers.DenseReparameterization(
        1, kernel_initializer="trainable_multivariate_normal", kl_scale=1.0
    )
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("adamw", "mse")
    with pytest.warns(UserWarning, match="'kernel_tril\\$'"):
        fit(model)


def test_optimizers_without_decay_do_not_warn_of_it():
    fit(make_model(keras.optimizers.AdamW(weight_decay=0.0), kl_scale=1.0))


def test_calls_outside_of_fit_do_not_warn():
    # A loop of one's own may scale the divergence as it likes.
    model = make_model(optimizer=None)
    model(X, training=True)
    assert len(model.losses) == 2
    compiled = make_model()
    compiled(X)
    compiled.predict(X, verbose=0)


def test_evaluate_does_not_warn():
    make_model().evaluate(X, Y, verbose=0)
