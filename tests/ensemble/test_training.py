"""Members are trained as if each were alone."""

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from bayesian_layers import backend
from tests.ensemble.networks import (
    CLASSES,
    NLL,
    X,
    Y,
    assert_same_weights,
    bayesian,
    classifier,
    compile_all,
    copies,
    fit,
    mean_of,
    normalized,
    numpy_of,
    plain,
)


def penalized():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(
                4, "tanh", kernel_regularizer="l2", activity_regularizer="l1"
            ),
            keras.layers.Dropout(0.3, seed=1),
            keras.layers.Dense(1),
        ]
    )


@pytest.mark.parametrize(
    ("build", "loss", "metrics"),
    [
        (plain, "mse", lambda: ["mae", keras.metrics.RootMeanSquaredError()]),
        (normalized, NLL(), lambda: [bl.metrics.NegativeLogLikelihood()]),
        (bayesian, NLL(), None),
        (penalized, "mse", None),
    ],
)
def test_members_are_trained_as_if_each_were_alone(build, loss, metrics):
    keras.utils.set_random_seed(1)
    ensemble = bl.Ensemble(build, 2)
    if build is bayesian:
        bl.scale_kl(ensemble, dataset_size=len(X))
    alone = copies(ensemble)
    compile_all([ensemble, *alone], loss, metrics)
    history = fit(ensemble)
    histories = [fit(model) for model in alone]
    assert_same_weights(ensemble.members, alone)
    assert history.keys() == histories[0].keys()
    for name in history:
        np.testing.assert_allclose(history[name], mean_of(histories, name), rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"global_clipnorm": 0.1, "use_ema": True, "ema_momentum": 0.5},
        {
            "clipnorm": 0.1,
            "gradient_accumulation_steps": 2,
            "learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5),
        },
    ],
    ids=["global_clipnorm, use_ema", "clipnorm, accumulation, schedule"],
)
def test_no_option_of_the_optimizer_couples_members(options):
    keras.utils.set_random_seed(2)
    ensemble = bl.Ensemble(plain, 2)
    alone = copies(ensemble)
    options = {"learning_rate": 0.1, **options}
    compile_all(
        [ensemble, *alone], "mse", optimizer=lambda: keras.optimizers.Adam(**options)
    )
    fit(ensemble)
    for model in alone:
        fit(model)
    assert_same_weights(ensemble.members, alone)


def test_sample_weights_and_several_outputs():
    def build():
        x = keras.Input((3,))
        h = keras.layers.Dense(4, "tanh")(x)
        outputs = {"a": keras.layers.Dense(1, name="a")(h), "b": bl.layers.Normal(1)(h)}
        return keras.Model(x, outputs)

    keras.utils.set_random_seed(3)
    ensemble = bl.Ensemble(build, 2)
    alone = copies(ensemble)
    compile_all([ensemble, *alone], {"a": "mse", "b": NLL()})
    y, weights = {"a": Y, "b": -Y}, np.linspace(0.0, 1.0, len(X))
    history = fit(ensemble, X, y, sample_weight=weights)
    histories = [fit(model, X, y, sample_weight=weights) for model in alone]
    assert_same_weights(ensemble.members, alone)
    np.testing.assert_allclose(history["loss"], mean_of(histories, "loss"), rtol=1e-5)
    assert set(ensemble(X)) == {"a", "b"}


def test_members_differ_and_batch_statistics_are_their_own():
    ensemble = bl.Ensemble(normalized, 2)
    compile_all([ensemble], NLL())
    fit(ensemble)
    first, second = (member.layers[1] for member in ensemble.members)
    for name in ("moving_mean", "moving_variance"):
        ours, theirs = (getattr(layer, name).numpy() for layer in (first, second))
        assert np.all(ours != theirs)
        assert not np.any(np.isin(ours, (0.0, 1.0)))


def test_kl_schedule_scales_all_members():
    ensemble = bl.Ensemble(bayesian, 2)
    compile_all([ensemble], NLL(), lambda: [bl.metrics.NegativeLogLikelihood()])
    schedule = bl.callbacks.KLSchedule(dataset_size=len(X), warmup_epochs=2)
    history = fit(ensemble, callbacks=[schedule], validation_data=(X, Y))
    for member in ensemble.members:
        assert np.isclose(member.layers[0].kl_scale, 1.0 / len(X))
    total = numpy_of(bl.total_kl(ensemble))
    parts = [numpy_of(bl.total_kl(member)) for member in ensemble.members]
    np.testing.assert_allclose(total, sum(parts), rtol=1e-5)
    np.testing.assert_allclose(history["kl"][-1], total, rtol=1e-5)
    # The first epoch has no KL, validation has all of it: the mean over members.
    np.testing.assert_allclose(history["loss"][0], history["nll"][0], rtol=1e-5)
    expected = history["val_nll"][-1] + np.mean(parts) / len(X)
    np.testing.assert_allclose(history["val_loss"][-1], expected, rtol=1e-4)


def test_a_kl_that_nobody_scaled_is_warned_of_once():
    ensemble = bl.Ensemble(bayesian, 3)
    compile_all([ensemble], NLL())
    with pytest.warns(UserWarning, match="hardly learn") as caught:
        fit(ensemble, epochs=1)
    assert len([w for w in caught if "hardly learn" in str(w.message)]) == 1


def test_the_learning_rate_is_set_for_all_members():
    ensemble = bl.Ensemble(plain, 2)
    compile_all([ensemble], "mse")
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.0)
    before = ensemble.get_weights()
    history = fit(ensemble, callbacks=[rates])
    assert history["learning_rate"] == [0.0, 0.0, 0.0]
    for ours, theirs in zip(ensemble.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert int(ensemble.optimizer.iterations.numpy()) == 9


def test_weight_decay_excludes_what_the_given_optimizer_excludes():
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    ensemble = bl.Ensemble(plain, 2)
    ensemble.compile(optimizer, "mse")
    for member in ensemble.members:
        kernel, bias = member.layers[0].weights
        assert member.optimizer._use_weight_decay(kernel)
        assert not member.optimizer._use_weight_decay(bias)


def test_a_member_may_have_a_loss_of_its_own_and_no_input_shape():
    class Unbuilt(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            return ops.mean(ops.abs(y - y_pred))

    ensemble = bl.Ensemble(Unbuilt, 2)
    ensemble.compile(keras.optimizers.SGD(0.0), "mse")
    history = fit(ensemble, epochs=1, batch_size=len(X))
    outputs = np.stack([numpy_of(member(X)) for member in ensemble.members])
    np.testing.assert_allclose(history["loss"], [np.abs(outputs - Y).mean()], rtol=1e-5)
    assert np.any(outputs[0] != outputs[1])


def test_train_on_batch_and_a_callback_that_reads_weights():
    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()
            self.kernel = self.model.members[1].layers[0].kernel.numpy()

    keras.utils.set_random_seed(5)
    ensemble = bl.Ensemble(plain, 2)
    alone = copies(ensemble)
    compile_all([ensemble, *alone], "mse")
    reads = Reads()
    fit(ensemble, callbacks=[reads])
    ensemble.train_on_batch(X, Y)
    for model in alone:
        fit(model)
    kernel = alone[1].layers[0].kernel.numpy()
    np.testing.assert_allclose(reads.kernel, kernel, atol=1e-5)
    for model in alone:
        model.train_on_batch(X, Y)
    assert_same_weights(ensemble.members, alone)


def test_training_that_fails_leaves_members_as_they_were():
    ensemble = bl.Ensemble(classifier, 2)
    compile_all([ensemble], "mse")
    before = ensemble.get_weights()
    with pytest.raises(Exception, match=r"."):
        fit(ensemble, X, np.zeros((len(X), 7, 5), "float32"))
    for ours, theirs in zip(ensemble.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    compile_all([ensemble], NLL())
    fit(ensemble, X, CLASSES)


@pytest.mark.skipif(not backend.maps_models, reason="a loop on this backend")
def test_the_program_of_a_step_does_not_grow_with_the_number_of_members():
    import jax

    def length(size):
        ensemble = bl.Ensemble(bayesian, size)
        bl.scale_kl(ensemble, dataset_size=len(X))
        compile_all([ensemble], NLL())
        ensemble.train_on_batch(X, Y)  # Builds all state.
        step = jax.make_jaxpr(ensemble.train_step)
        return str(step(ensemble.train_state(), (X, Y))).count("\n")

    assert length(2) == length(5)
