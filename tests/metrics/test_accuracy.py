import keras
import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import bayesian_layers as bl

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(50, 4)).astype("float32")
LABELS = RNG.integers(0, 4, 50)
WEIGHTS = RNG.uniform(size=50).astype("float32")


def compiled(head, columns=4):
    model = keras.Sequential([keras.Input((columns,)), head])
    model.compile(
        loss=bl.losses.NegativeLogLikelihood(), metrics=[bl.metrics.Accuracy()]
    )
    return model


@pytest.mark.parametrize("shape", [(50,), (50, 1)])
def test_of_a_categorical_it_is_that_of_scikit_learn(shape):
    model = compiled(bl.layers.Categorical())
    # Batches of 16 and a rest of 2: each example counts once.
    logs = model.evaluate(
        LOGITS, LABELS.reshape(shape), batch_size=16, verbose=0, return_dict=True
    )
    expected = accuracy_score(LABELS, LOGITS.argmax(axis=1))
    np.testing.assert_allclose(logs["accuracy"], expected, rtol=1e-6)


def test_weights_of_examples_count():
    metric = bl.metrics.Accuracy()
    variable = bl.layers.Categorical()(LOGITS)
    metric.update_state(LABELS, variable, sample_weight=WEIGHTS)
    expected = accuracy_score(LABELS, LOGITS.argmax(axis=1), sample_weight=WEIGHTS)
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-5)


def test_of_other_heads_it_counts_decisions():
    one_hot = np.eye(4)[LABELS]
    expected = accuracy_score(LABELS, LOGITS.argmax(axis=1))
    logs = compiled(bl.layers.OneHotCategorical()).evaluate(
        LOGITS, one_hot, verbose=0, return_dict=True
    )
    np.testing.assert_allclose(logs["accuracy"], expected, rtol=1e-6)
    logs = compiled(bl.layers.Bernoulli()).evaluate(
        LOGITS, one_hot, verbose=0, return_dict=True
    )
    expected = np.mean((LOGITS > 0.0) == (one_hot > 0.0))
    np.testing.assert_allclose(logs["accuracy"], expected, rtol=1e-6)


def test_masked_steps_are_left_out():
    tokens = np.array([[1, 2, 0], [3, 0, 0]], "int32")
    inputs = keras.Input((3,), dtype="int32")
    x = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    model = keras.Model(inputs, bl.layers.Categorical(4)(x))
    model.compile(
        loss=bl.losses.NegativeLogLikelihood(), metrics=[bl.metrics.Accuracy()]
    )
    labels = keras.ops.convert_to_numpy(model(tokens).mode()).copy()
    labels[0, 1] = (labels[0, 1] + 1) % 4  # One of the three that count is wrong.
    labels[tokens == 0] = -1
    logs = model.evaluate(tokens, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["accuracy"], 2 / 3, rtol=1e-6)


def test_it_is_logged_in_fit_and_can_be_watched():
    model = compiled(bl.layers.Categorical(4))
    history = model.fit(
        LOGITS,
        LABELS,
        verbose=0,
        validation_data=(LOGITS, LABELS),
        callbacks=[keras.callbacks.EarlyStopping(monitor="val_accuracy")],
    )
    assert {"accuracy", "val_accuracy"} <= set(history.history)


def test_it_needs_a_head_of_classes():
    with pytest.raises(ValueError, match="Categorical expects `probs`"):
        bl.metrics.Accuracy().update_state(LABELS, LOGITS)
    with pytest.raises(TypeError, match="Categorical"):
        bl.metrics.Accuracy().update_state(LABELS, bl.Normal(np.zeros(50), 1.0))
    with pytest.raises(ValueError, match=r"\(50, 4\).*\(50,\).*OneHotCategorical"):
        bl.metrics.Accuracy().update_state(
            np.eye(4)[LABELS], bl.layers.Categorical()(LOGITS)
        )


def test_it_can_be_saved():
    metric = bl.metrics.Accuracy(name="right")
    config = keras.saving.serialize_keras_object(metric)
    assert keras.saving.deserialize_keras_object(config).name == "right"
