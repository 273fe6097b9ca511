"""The numbers of a prediction, against those of SciPy and NumPy for each draw."""

import keras
import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import log_loss

import bayesian_layers as bl
from bayesian_layers.prediction.quantiles import mixture_quantile
from tests.layers.outputs.table import array
from tests.statistics import assert_distributed_as

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype("float32")
# Two times 10 draws that are run at once.
SAMPLES = 20


class Homoscedastic(keras.Layer):
    """A head that a user wrote: one scale, trainable, for all examples and outputs."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones")

    def compute_output_shape(self, input_shape):
        return input_shape

    def call(self, inputs):
        return bl.Normal(inputs, 0.5 * self.scale, seed=self.seed_generator)


@pytest.fixture(scope="module")
def model():
    """All kinds of outputs, of one random layer; and one that is not random."""
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="tanh")(inputs)
    random = bl.layers.DenseFlipout(4, activation="tanh", name="random")
    features = random(hidden)
    random.random_weights["kernel"].variables["scale"].assign(np.full((4, 4), 1.0))
    logits = keras.layers.Dense(3)(features)
    logit = keras.layers.Dense(1)(features)
    outputs = {
        "normal": bl.layers.Normal(1)(features),
        "normals": bl.layers.Normal(2)(features),
        "same_scale": Homoscedastic()(keras.layers.Dense(2)(features)),
        "classes": bl.layers.Categorical(3)(features),
        "logits": logits,
        "logit": logit,
        "probs": keras.layers.Softmax()(logits),
        "prob": keras.layers.Activation("sigmoid")(logit),
        "constant": keras.layers.Dense(2)(hidden),
    }
    return keras.Model(inputs, outputs)


def predict(model, **kwargs):
    arguments = {"num_samples": SAMPLES, "batch_size": 3, "seed": 1, "verbose": 0}
    return bl.predict(model, X, **{**arguments, **kwargs})


@pytest.fixture(scope="module")
def predictions(model):
    return predict(model)


@pytest.fixture(scope="module")
def streamed(model):
    return predict(model, store_samples=False)


@pytest.fixture(scope="module")
def classifiers(model):
    """The plain outputs as classifiers: by name the prediction and [S, N, k] probs."""
    of_logits = predict(model, from_logits=True)
    plain = keras.Model(
        model.input, {name: model.output[name] for name in ("probs", "prob")}
    )
    of_probs = predict(plain, from_logits=False)
    values = predict(model)
    return {
        "classes": (of_logits["classes"], parameters(of_logits["classes"])["probs"]),
        "logits": (of_logits["logits"], special.softmax(values["logits"].samples, -1)),
        "logit": (of_logits["logit"], special.expit(values["logit"].samples)),
        "probs": (of_probs["probs"], values["probs"].samples),
        "prob": (of_probs["prob"], values["prob"].samples),
    }


def parameters(prediction):
    """The parameters of all draws, [samples, examples, ...], in float64."""
    distribution = prediction.distribution
    names = {"Normal": ("loc", "scale"), "Categorical": ("probs",)}
    return {
        name: array(getattr(distribution, name)).astype("float64")
        for name in names[type(distribution).__name__]
    }


NORMALS = ("normal", "normals", "same_scale")


# Moments.


@pytest.mark.parametrize("name", NORMALS)
def test_the_variance_is_that_of_the_means_plus_the_mean_of_the_variances(
    predictions, name
):
    prediction = predictions[name]
    loc, scale = parameters(prediction).values()
    assert loc.shape == (SAMPLES, 7, 1 if name == "normal" else 2)
    assert prediction.num_samples == SAMPLES
    # Means of numbers of order 1, in float32, may be close to 0.
    np.testing.assert_allclose(prediction.mean, loc.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, loc.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(prediction.aleatoric, (scale**2).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        prediction.stddev**2, prediction.epistemic + prediction.aleatoric, rtol=1e-6
    )
    assert np.all(prediction.epistemic > 0)


def test_one_scale_for_all_outputs_is_the_scale_of_each(predictions):
    prediction = predictions["same_scale"]
    np.testing.assert_allclose(prediction.aleatoric, np.full((7, 2), 0.25), rtol=1e-6)
    assert prediction.samples.shape == (SAMPLES, 7, 2)


def test_plain_outputs_have_the_moments_of_their_values(predictions):
    prediction = predictions["logits"]
    values = prediction.samples.astype("float64")
    assert values.shape == (SAMPLES, 7, 3)
    np.testing.assert_allclose(prediction.mean, values.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, values.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(prediction.stddev, values.std(axis=0), rtol=1e-4)
    np.testing.assert_array_equal(prediction.aleatoric, np.zeros((7, 3)))


def test_an_output_that_is_not_random_has_no_uncertainty(model, predictions):
    prediction = predictions["constant"]
    expected = array(model(X)["constant"])
    np.testing.assert_allclose(prediction.mean, expected, atol=1e-6)
    np.testing.assert_allclose(prediction.stddev, np.zeros((7, 2)), atol=1e-9)
    np.testing.assert_allclose(prediction.samples, [expected] * SAMPLES, atol=1e-6)


def test_samples_are_draws_from_the_distribution_of_each(predictions):
    prediction = predictions["normals"]
    loc, scale = parameters(prediction).values()
    noise = (prediction.samples - loc) / scale
    # 280 independent numbers.
    assert_distributed_as(noise.ravel(), stats.norm.cdf, detect=0.35)
    np.testing.assert_array_equal(prediction.samples, prediction.samples)


def test_samples_of_classes_are_classes(predictions):
    samples = predictions["classes"].samples
    assert samples.shape == (SAMPLES, 7)
    assert samples.dtype == "int32"
    assert set(np.unique(samples)) <= {0, 1, 2}


# What is not stored.


def test_moments_without_samples_are_those_with_them(predictions, streamed):
    for name in (*NORMALS, "classes", "logits", "constant"):
        for moment in ("mean", "stddev", "epistemic", "aleatoric"):
            np.testing.assert_allclose(
                getattr(streamed[name], moment),
                getattr(predictions[name], moment),
                atol=1e-6,
                rtol=1e-6,
                err_msg=f"{moment} of {name}",
            )
    assert streamed["normal"].num_samples == SAMPLES


@pytest.mark.parametrize(
    "use",
    [
        lambda prediction: prediction.samples,
        lambda prediction: prediction.distribution,
        lambda prediction: prediction.quantile(0.5),
        lambda prediction: prediction.interval(),
        lambda prediction: prediction.log_prob(np.zeros((7, 1))),
    ],
    ids=["samples", "distribution", "quantile", "interval", "log_prob"],
)
def test_what_needs_samples_says_so(streamed, use):
    with pytest.raises(ValueError, match="store_samples=True"):
        use(streamed["normal"])


# Quantiles.


def test_quantiles_invert_the_distribution_function_of_the_mixture(predictions):
    prediction = predictions["normals"]
    loc, scale = parameters(prediction).values()
    for q in (0.001, 0.3, 0.99):
        quantile = prediction.quantile(q)
        assert quantile.shape == (7, 2)
        cdf = stats.norm.cdf(quantile, loc, scale).mean(axis=0)
        # A float32 holds a distribution function to 1e-7.
        np.testing.assert_allclose(cdf, np.full((7, 2), q), atol=2e-6)


@pytest.mark.parametrize("name", ["normals", "logits", "classes"])
def test_an_array_of_probabilities_is_a_leading_axis(predictions, name):
    prediction = predictions[name]
    quantiles = prediction.quantile([[0.1, 0.5], [0.9, 0.3]])
    expected = [
        [prediction.quantile(q) for q in row] for row in [[0.1, 0.5], [0.9, 0.3]]
    ]
    np.testing.assert_array_equal(quantiles, expected)
    assert quantiles.shape == (2, 2, *prediction.samples.shape[1:])
    with pytest.raises(ValueError, match=r"Received: q=\[0.1, 1.2\]"):
        prediction.quantile([0.1, 1.2])


class Counted(bl.distributions.Normal):
    """Counts the evaluations of its distribution function."""

    evaluations = 0

    def _cdf(self, value):
        type(self).evaluations += 1
        return super()._cdf(value)


def test_quantiles_start_from_those_of_the_parts_and_end_when_they_are_known():
    loc = np.linspace(0.0, 4.0, 15, dtype="float32").reshape(5, 3)
    distribution = Counted(loc, np.full((5, 3), 0.5, "float32"))
    quantile = mixture_quantile(distribution, 0.99, None)
    cdf = stats.norm.cdf(quantile, loc, 0.5).mean(axis=0)
    np.testing.assert_allclose(cdf, np.full(3, 0.99), atol=2e-6)
    # The 24 bits of a number, and 2 for a bracket wider than it.
    assert Counted.evaluations <= 26
    # Parts that agree need no search.
    Counted.evaluations = 0
    same = Counted(np.full((5, 3), 2.0, "float32"), np.full((5, 3), 0.5, "float32"))
    quantile = mixture_quantile(same, 0.9, None)
    np.testing.assert_allclose(quantile, stats.norm.ppf(0.9, 2.0, 0.5), rtol=1e-5)
    assert Counted.evaluations == 1


def test_an_interval_leaves_half_of_the_rest_on_each_side(predictions):
    prediction = predictions["normals"]
    low, high = prediction.interval(0.8)
    np.testing.assert_allclose(low, prediction.quantile(0.1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(high, prediction.quantile(0.9), rtol=1e-4, atol=1e-5)


def test_quantiles_of_plain_outputs_are_those_of_the_samples(predictions):
    prediction = predictions["logits"]
    for q in (0.0, 0.25, 1.0):
        np.testing.assert_allclose(
            prediction.quantile(q), np.quantile(prediction.samples, q, axis=0)
        )


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_quantiles_are_of_probabilities(predictions, q):
    with pytest.raises(ValueError, match=f"between 0 and 1. Received: q={q}"):
        predictions["normal"].quantile(q)
    with pytest.raises(ValueError, match=f"Received: probability={q}"):
        predictions["normal"].interval(q)


# Likelihoods.


@pytest.mark.parametrize(
    ("name", "shape"), [("normal", (7,)), ("normal", (7, 1)), ("normals", (7, 2))]
)
def test_log_prob_averages_likelihoods_of_examples_over_draws(predictions, name, shape):
    prediction = predictions[name]
    loc, scale = parameters(prediction).values()
    y = np.random.default_rng(1).normal(size=shape).astype("float32")
    values = stats.norm.logpdf(y.reshape(7, -1), loc, scale).sum(axis=-1)
    expected = special.logsumexp(values, axis=0) - np.log(SAMPLES)
    np.testing.assert_allclose(prediction.log_prob(y), expected, rtol=1e-4)


def test_log_prob_is_finite_where_each_likelihood_underflows(predictions):
    prediction = predictions["normal"]
    loc, scale = parameters(prediction).values()
    y = np.full(7, 1e3, "float32")
    values = stats.norm.logpdf(y[:, None], loc, scale)[..., 0]
    expected = special.logsumexp(values, axis=0) - np.log(SAMPLES)
    np.testing.assert_allclose(prediction.log_prob(y), expected, rtol=1e-4)


def test_log_prob_of_classes_is_minus_the_log_loss_of_scikit_learn(classifiers):
    y = np.array([0, 1, 2, 2, 1, 0, 0])
    for name in ("classes", "logits", "probs"):
        prediction, probs = classifiers[name]
        mean = probs.astype("float64").mean(axis=0)
        expected = log_loss(y, mean / mean.sum(axis=-1, keepdims=True))
        np.testing.assert_allclose(-prediction.log_prob(y).mean(), expected, rtol=1e-4)


def test_targets_of_another_shape_raise_with_both(predictions):
    with pytest.raises(ValueError, match=r"\(7,\).*\(7, 2\)"):
        predictions["normals"].log_prob(np.zeros(7))
    with pytest.raises(ValueError, match=r"\(3, 1\).*\(7, 1\)"):
        predictions["normal"].log_prob(np.zeros((3, 1)))


def test_plain_outputs_have_no_likelihood(predictions):
    with pytest.raises(ValueError, match="from_logits"):
        predictions["logits"].log_prob(np.zeros((7, 3)))


# Classifiers.


def entropies(probs):
    """Of classes on the last axis, or of one class if that has the size 1."""
    if probs.shape[-1] == 1:
        return stats.bernoulli(probs).entropy()
    return stats.entropy(probs, axis=-1)


CLASSIFIERS = ("classes", "logits", "logit", "probs", "prob")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_averaged_and_their_entropy_split(classifiers, name):
    prediction, probs = classifiers[name]
    probs = probs.astype("float64")
    mean = probs.mean(axis=0)
    np.testing.assert_allclose(prediction.probs, mean, rtol=1e-5)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(prediction.entropy, entropies(mean), rtol=1e-4)
    aleatoric = entropies(probs).mean(axis=0)
    np.testing.assert_allclose(prediction.aleatoric, aleatoric, rtol=1e-4)
    information = entropies(mean) - aleatoric
    np.testing.assert_allclose(prediction.epistemic, information, atol=2e-6)
    np.testing.assert_array_equal(prediction.epistemic, prediction.mutual_information)
    np.testing.assert_allclose(
        prediction.entropy, prediction.epistemic + prediction.aleatoric, atol=1e-6
    )
    assert np.all(prediction.mutual_information >= 0.0)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_deviation_of_a_class_is_that_of_its_indicator(classifiers, name):
    prediction, probs = classifiers[name]
    mean = probs.astype("float64").mean(axis=0)
    np.testing.assert_allclose(
        prediction.stddev, stats.bernoulli(mean).std(), rtol=1e-4
    )


@pytest.mark.parametrize("attribute", ["probs", "entropy", "mutual_information"])
def test_what_is_for_classifiers_says_how_to_be_one(predictions, attribute):
    for name in ("logits", "normal"):
        with pytest.raises(ValueError, match=f"`{attribute}`.*from_logits=True"):
            getattr(predictions[name], attribute)


@pytest.mark.parametrize("from_logits", [True, False])
def test_heads_are_no_logits(model, from_logits):
    heads = keras.Model(
        model.input, {name: model.output[name] for name in ("normal", "classes")}
    )
    with pytest.raises(ValueError, match=f"={from_logits} .*Categorical, Normal"):
        predict(heads, from_logits=from_logits)


def test_a_head_beside_plain_outputs_is_a_head(model, predictions):
    prediction = predict(model, from_logits=True)["normal"]
    np.testing.assert_array_equal(prediction.mean, predictions["normal"].mean)


def test_outputs_that_are_no_probabilities_are_refused(model):
    logits = keras.Model(model.input, 10.0 * model.output["logits"])
    with pytest.raises(ValueError, match="`probs`"):
        predict(logits, from_logits=False)


def test_the_representation_says_what_it_is(predictions):
    assert repr(predictions["normal"]) == (
        "<Prediction of 7 examples, 20 samples of Normal>"
    )
    assert repr(predictions["logits"]) == (
        "<Prediction of 7 examples, 20 samples of values>"
    )


def test_quantiles_of_a_mixture_head_invert_its_distribution_function():
    head = bl.layers.MixtureNormal(num_components=2)
    model = keras.Sequential([keras.Input((6,)), head])
    raw = np.random.default_rng(3).normal(size=(3, 6)).astype("float32")
    prediction = bl.predict(model, raw, num_samples=2, seed=1, verbose=0)
    logits, loc, scale = np.split(raw.astype("float64"), 3, axis=1)
    weights = special.softmax(logits, axis=1)
    for q in (0.05, 0.5, 0.9):
        z = (prediction.quantile(q) - loc) / (np.logaddexp(0.0, scale) + 1e-5)
        np.testing.assert_allclose(
            (weights * stats.norm.cdf(z)).sum(axis=1), q, atol=1e-4
        )
    with pytest.raises(ValueError, match="q=1.0"):
        prediction.quantile(1.0)
