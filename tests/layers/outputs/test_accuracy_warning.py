"""Keras' accuracy of a head of classes is none: a word where nothing would show it."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.arange(8) % 4


def make_model(metric, head):
    model = keras.Sequential([keras.Input((4,)), head])
    model.compile("sgd", bl.losses.NegativeLogLikelihood(), metrics=[metric])
    return model


@pytest.mark.parametrize(
    "metric", ["accuracy", "acc", keras.metrics.CategoricalAccuracy], ids=str
)
def test_it_warns_once_with_the_line_to_paste(metric):
    metric = metric if isinstance(metric, str) else metric()
    model = make_model(metric, bl.layers.Categorical(4, name="kind"))
    with pytest.warns(UserWarning, match=r"'kind'.*bl.metrics.Accuracy\(\)") as caught:
        model.fit(X, Y, verbose=0)
        model.evaluate(X, Y, verbose=0)
    assert len([w for w in caught if "accuracy of the head" in str(w.message)]) == 1


def test_vectors_and_bits_warn_if_metrics_see_draws():
    one_hot = np.eye(4, dtype="float32")[Y]
    for head in (bl.layers.OneHotCategorical, bl.layers.Bernoulli):
        with pytest.warns(UserWarning, match="accuracy of the head"):
            make_model("accuracy", head(4)).evaluate(X, one_hot, verbose=0)
        # What warns would fail: Keras can take modes for scores.
        make_model("accuracy", head(4, convert="mode")).evaluate(X, one_hot, verbose=0)


def test_other_metrics_and_other_outputs_do_not_warn():
    make_model(bl.metrics.Accuracy(), bl.layers.Categorical(4)).fit(X, Y, verbose=0)
    inputs = keras.Input((4,))
    outputs = {
        "kind": bl.layers.Categorical(4, name="kind")(inputs),
        "scores": keras.layers.Dense(4, activation="softmax", name="scores")(inputs),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        loss={
            "kind": bl.losses.NegativeLogLikelihood(),
            "scores": "sparse_categorical_crossentropy",
        },
        metrics={"kind": [bl.metrics.Accuracy()], "scores": ["accuracy"]},
    )
    model.fit(X, {"kind": Y, "scores": Y}, verbose=0)
