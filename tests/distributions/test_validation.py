"""Bad parameters and values are refused, with what was given and what is expected."""

import keras
import numpy as np
import pytest

from bayesian_layers import distributions as d
from tests.differentiation import BACKEND

BAD = [
    (lambda: d.Normal(0.0, -1.0), r"Normal expects `scale` to be positive.*scale=-1"),
    (lambda: d.Normal(0.0, np.nan), "`scale` to be positive"),
    (lambda: d.Normal(np.nan, 1.0), "`loc` to be real"),
    (lambda: d.Normal([0.0, 1.0], [1.0, 0.0]), "`scale` to be positive"),
    (lambda: d.Normal(np.zeros(2), np.ones(3)), r"loc.shape=\(2,\).*\(3,\)"),
    (lambda: d.Normal("zero", 1.0), "`loc` to be numeric"),
    (lambda: d.Gamma(0.0, 1.0), "`concentration` to be positive"),
    (lambda: d.Beta(1.0, -1.0), "`concentration0` to be positive"),
    (lambda: d.Bernoulli(probs=1.5), r"`probs` to be in \[0.0, 1.0\]"),
    (lambda: d.Bernoulli(), "exactly one of `logits` and `probs`"),
    (lambda: d.Bernoulli(0.0, 0.5), "exactly one of `logits` and `probs`"),
    (lambda: d.Categorical(probs=[0.5, 0.6]), "sum one"),
    (lambda: d.Binomial(2.5, probs=0.5), "`total_count` to be a nonnegative whole"),
    (lambda: d.Poisson(), "exactly one of `rate` and `log_rate`"),
    (lambda: d.Uniform(1.0, 0.0), "`low` < `high`"),
    (lambda: d.TruncatedNormal(0.0, 1.0, 2.0, 2.0), "`low` < `high`"),
    (
        lambda: d.MultivariateNormalTriL([0.0, 0.0], [[1.0, 1.0], [0.0, 1.0]]),
        "lower triangular",
    ),
    (
        lambda: d.MultivariateNormalTriL(np.zeros(3), np.eye(2)),
        r"one length k.*loc.shape=\(3,\).*scale_tril.shape=\(2, 2\)",
    ),
    (
        lambda: d.MultivariateNormalDiag(np.zeros(3), np.ones(2)),
        r"one length k.*\(3,\).*\(2,\)",
    ),
    (
        lambda: d.MultivariateNormalLowRank(np.zeros(3), np.ones(3), np.ones((2, 1))),
        r"one length k.*\(2, 1\)",
    ),
    (
        lambda: d.MultivariateNormalKronecker(np.zeros(5), np.eye(3), np.eye(2)),
        r"n \* m elements.*\(5,\).*\(3, 3\).*\(2, 2\)",
    ),
    (lambda: d.MultivariateNormalDiag(0.0, np.ones(2)), r"`loc` to have at least 1"),
    (lambda: d.Independent(d.Normal(0.0, 1.0), 1), "from 0 to 0"),
    (lambda: d.Quantized(d.Normal(0.0, 1.0), 3, 1), "`low` < `high`"),
    (lambda: d.Quantized(d.Normal(0.0, 1.0), 0.5, 1.5), "without `num_bins` integers"),
    (lambda: d.Quantized(d.Normal(0.0, 1.0), 0.5, 1.5, 1), "num_bins=1"),
    (
        lambda: d.MixtureSameFamily(
            d.Categorical(probs=[0.5, 0.5]), d.Normal(np.zeros(3), 1.0)
        ),
        r"2 components and.*\(3,\)",
    ),
    (lambda: d.Normal(keras.Input((3,)), 1.0), "symbolic tensor"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_parameters_name_what_was_expected_and_given(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make()


def test_values_of_the_wrong_event_shape_name_both():
    normal = d.MultivariateNormalDiag([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"event_shape=\(2,\).*value.shape=\(3,\)"):
        normal.log_prob(np.zeros(3))


def test_missing_methods_name_the_distribution():
    with pytest.raises(NotImplementedError, match="Cauchy has no `mean`"):
        d.Cauchy(0.0, 1.0).mean()
    with pytest.raises(NotImplementedError, match="Poisson has no `quantile`"):
        d.Poisson(1.0).quantile(0.5)


def test_a_divergence_without_closed_form_offers_the_estimate():
    with pytest.raises(NotImplementedError, match="method='monte_carlo', num_samples"):
        d.kl_divergence(
            d.Normal(0.0, 1.0), d.StudentT(3.0, 0.0, 1.0), method="closed_form"
        )


@pytest.mark.skipif(BACKEND != "jax", reason="Programs can be looked at on JAX.")
def test_inside_of_jit_validation_leaves_nothing_in_the_program():
    import jax

    def validated(loc, scale, x):
        return d.Normal(loc, scale).log_prob(x)

    def trusted(loc, scale, x):
        return d.Normal.rebuild({"loc": loc, "scale": scale}).log_prob(x)

    programs = [
        str(jax.make_jaxpr(function)(*np.ones((3, 2), "float32")))
        for function in (validated, trusted)
    ]
    assert programs[0] == programs[1]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Graphs are TensorFlow's.")
def test_inside_of_a_graph_validation_leaves_nothing():
    import tensorflow as tf

    def operations(function):
        spec = [tf.TensorSpec((2,))] * 3
        graph = tf.function(function).get_concrete_function(*spec).graph
        return [operation.type for operation in graph.get_operations()]

    assert operations(lambda loc, scale, x: d.Normal(loc, scale).log_prob(x)) == (
        operations(
            lambda loc, scale, x: d.Normal.rebuild(
                {"loc": loc, "scale": scale}
            ).log_prob(x)
        )
    )
