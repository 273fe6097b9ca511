import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

import bayesian_layers as bl

MEAN, SPREAD = 0.4, 1.3


def array(x):
    return ops.convert_to_numpy(ops.stop_gradient(x))


def expected(log_prob):
    return integrate.quad(
        lambda f: log_prob(f) * stats.norm.pdf(f, MEAN, SPREAD), -15.0, 15.0
    )[0]


def latent(*shape):
    return bl.distributions.Normal(np.full(shape, MEAN, "float32"), SPREAD)


@pytest.mark.parametrize("given", [latent(2, 1), bl.RandomVariable(latent(2, 1))])
def test_a_function_is_integrated_at_nodes(given):
    result = bl.expected_log_likelihood(
        given, lambda f: bl.distributions.Bernoulli(logits=f), np.array([[0], [1]])
    )
    np.testing.assert_allclose(
        array(result)[:, 0],
        [expected(lambda f: special.log_expit(-f)), expected(special.log_expit)],
        rtol=1e-4,
    )


def test_more_nodes_come_closer():
    noise = 0.2
    exact = expected(lambda f: stats.t.logpdf(1.0, 4.0, f, noise))
    errors = [
        abs(
            float(
                bl.expected_log_likelihood(
                    latent(),
                    lambda f: bl.distributions.StudentT(4.0, f, noise),
                    1.0,
                    num_nodes=num_nodes,
                )
            )
            - exact
        )
        for num_nodes in (10, 20, 100)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 2e-3


def test_a_layer_has_its_closed_form():
    layer = bl.layers.GaussianLikelihood(0.25)
    result = bl.expected_log_likelihood(latent(2, 1), layer, np.ones((2, 1)))
    exact = expected(lambda f: stats.norm.logpdf(1.0, f, 0.5))
    np.testing.assert_allclose(array(result), np.full((2, 1), exact), rtol=1e-5)


def test_draws_serve_where_an_observation_depends_on_several_values():
    def likelihood(f):
        return bl.distributions.Categorical(logits=f)

    count = 20_000
    result = bl.expected_log_likelihood(
        latent(2), likelihood, 0, num_samples=count, seed=1
    )
    # The difference of two logits is normal. Six standard errors: 2e-9.
    difference = stats.norm(0.0, np.sqrt(2.0) * SPREAD)
    exact, second = (
        difference.expect(lambda f, power=power: special.log_expit(f) ** power)
        for power in (1, 2)
    )
    allowed = 6.0 * np.sqrt((second - exact**2) / count)
    assert abs(float(result) - exact) < allowed < 0.05
    with pytest.raises(ValueError, match="Give `num_samples`"):
        bl.expected_log_likelihood(latent(2), likelihood, 0)


def test_wrong_arguments_are_refused():
    def likelihood(f):
        return bl.distributions.Normal(f, 1.0)

    with pytest.raises(ValueError, match="those of a Normal"):
        bl.expected_log_likelihood(bl.distributions.Laplace(0.0, 1.0), likelihood, 0.0)
    with pytest.raises(ValueError, match="either nodes or draws"):
        bl.expected_log_likelihood(
            latent(), likelihood, 0.0, num_nodes=3, num_samples=3
        )
    with pytest.raises(ValueError, match="has its own number"):
        bl.expected_log_likelihood(
            latent(2, 1), bl.layers.GaussianLikelihood(), np.ones((2, 1)), seed=1
        )
