"""Reversible layers in programs: of a variable and what is made of it one counts."""

import keras
import numpy as np
import pytest
import scipy.stats
from keras import ops

import bayesian_layers as bl


def array(tensor):
    return ops.convert_to_numpy(tensor)


def program(name="z"):
    """exp(1 + 2 z), of a standard normal z."""
    flow = bl.Sequential(
        [bl.layers.Affine(1.0, 2.0, name="affine"), bl.layers.Exp(name="exp")],
        name="flow",
    )

    def run():
        z = bl.Normal(0.0, 1.0, name=name)
        y = flow(z)
        return bl.Normal(ops.convert_to_tensor(y), 0.5, name="x")

    return run


def log_normal(y):
    return scipy.stats.lognorm(s=2.0, scale=np.e).logpdf(y)


def test_the_output_counts_where_its_input_has_no_name():
    log_joint = bl.make_log_joint_fn(program(name=None))
    expected = log_normal(3.0) + scipy.stats.norm(3.0, 0.5).logpdf(2.0)
    np.testing.assert_allclose(array(log_joint(flow=3.0, x=2.0)), expected, rtol=1e-5)
    with pytest.raises(LookupError, match="'flow' of shape"):
        log_joint(x=2.0)


def test_the_input_counts_where_it_has_a_name():
    log_joint = bl.make_log_joint_fn(program())
    y = np.exp(1.0 + 2.0 * 0.1)
    expected = scipy.stats.norm.logpdf(0.1) + scipy.stats.norm(y, 0.5).logpdf(2.0)
    np.testing.assert_allclose(array(log_joint(z=0.1, x=2.0)), expected, rtol=1e-5)
    with pytest.raises(LookupError, match="'z' of shape"):
        log_joint(x=2.0)


def test_an_output_that_is_known_takes_the_place_of_its_input():
    log_joint = bl.make_log_joint_fn(program(), {"flow": 3.0})
    expected = log_normal(3.0) + scipy.stats.norm(3.0, 0.5).logpdf(2.0)
    np.testing.assert_allclose(array(log_joint(x=2.0)), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="only one of them can be known"):
        log_joint(x=2.0, z=0.1)


def test_a_tape_tells_what_is_latent():
    with bl.tape() as tape:
        program()()
    assert list(tape) == ["z", "flow", "x"]
    assert list(tape.latent()) == ["z", "x"]
    with bl.tape() as tape:
        program(name=None)()
    assert list(tape.latent()) == ["flow", "x"]
    with bl.tape() as tape, bl.condition(flow=3.0):
        program()()
    assert list(tape.latent()) == ["x"]
    assert float(array(tape["flow"].value)) == 3.0


def test_of_two_layers_the_last_that_is_known_counts():
    first, second = bl.layers.Exp(name="first"), bl.layers.Scale(2.0, name="second")

    def run():
        second(first(bl.Normal(0.0, 1.0)))

    log_joint = bl.make_log_joint_fn(run)
    expected = scipy.stats.lognorm(s=1.0, scale=2.0).logpdf(3.0)
    np.testing.assert_allclose(array(log_joint(second=3.0)), expected, rtol=1e-5)
    expected = scipy.stats.lognorm(s=1.0).logpdf(1.5)
    np.testing.assert_allclose(array(log_joint(first=1.5)), expected, rtol=1e-5)


def test_a_flow_can_be_a_guide():
    """The exact posterior of log-normal data as a guide leaves no gap."""

    def model():
        w = bl.LogNormal(0.0, 1.0, name="w")
        return bl.Normal(ops.log(ops.convert_to_tensor(w)), 1.0, name="y")

    flow = bl.Sequential([bl.layers.Affine(1.0, 0.5**0.5), bl.layers.Exp()], name="w")

    def guide():
        return flow(bl.Normal(0.0, 1.0))

    bound = bl.elbo(model, guide, {"y": 2.0}, num_particles=3, seed=1)
    expected = scipy.stats.norm(0.0, 2.0**0.5).logpdf(2.0)
    np.testing.assert_allclose(array(bound), expected, rtol=1e-4)
    with pytest.raises(ValueError, match="a name of its own"):
        bl.elbo(model, lambda: bl.LogNormal(0.0, 1.0), {"y": 2.0})


def test_the_density_of_a_model_of_keras_needs_no_value_of_its_base():
    x = np.array([[0.5, 1.5], [1.0, 2.0]], "float32")
    model = keras.Sequential(
        [keras.Input((2,)), bl.layers.BaseDistribution(), bl.layers.Exp()]
    )
    log_joint = bl.make_log_joint_fn(model, (x, x))
    expected = scipy.stats.lognorm(s=1.0).logpdf(x).sum()
    np.testing.assert_allclose(array(log_joint()), expected, rtol=1e-5)
