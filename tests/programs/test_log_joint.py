"""Log joints of programs, against sums of SciPy's densities."""

import numpy as np
import pytest
from keras import ops
from scipy import stats

import bayesian_layers as bl
from tests.differentiation import finite_difference, grad, jit


def regression(x):
    w = bl.Normal(0.0, 2.0, sample_shape=2, name="w")
    noise = bl.HalfNormal(1.0, name="noise")
    return bl.Normal(w[0] + w[1] * x, noise, name="y")


def regression_by_hand(x, w, noise, y):
    return (
        stats.norm.logpdf(w, 0.0, 2.0).sum()
        + stats.halfnorm.logpdf(noise)
        + stats.norm.logpdf(y, w[0] + w[1] * x, noise).sum()
    )


def control_flow(steps):
    """A random walk: as many variables as the argument says."""
    position = 0.0
    for i in range(steps):
        position = bl.Normal(position, 0.5, name=f"step_{i}")
    return position


def vectors(total):
    shares = bl.Dirichlet(np.array([2.0, 3.0, 4.0], "float32"), name="shares")
    return bl.Multinomial(total, probs=shares, name="counts")


X, Y = np.array([0.0, 1.0, 3.0], "float32"), np.array([1.0, 0.5, 2.0], "float32")
W, NOISE = np.array([0.5, -0.2], "float32"), np.array(0.7, "float32")
SHARES, COUNTS = np.array([0.2, 0.3, 0.5], "float32"), np.array([1, 1, 3], "float32")

# Program, positional arguments, values, log joint by SciPy.
PROGRAMS = {
    "regression": (
        regression,
        (X,),
        {"w": W, "noise": NOISE, "y": Y},
        regression_by_hand(X, W, NOISE, Y),
    ),
    "control flow": (
        control_flow,
        (3,),
        {"step_0": 0.1, "step_1": 0.4, "step_2": -0.3},
        stats.norm.logpdf([0.1, 0.3, -0.7], 0.0, 0.5).sum(),
    ),
    "vectors": (
        vectors,
        (5.0,),
        {"shares": SHARES, "counts": COUNTS},
        stats.dirichlet.logpdf([0.2, 0.3, 0.5], [2.0, 3.0, 4.0])
        + stats.multinomial.logpmf([1, 1, 3], 5, [0.2, 0.3, 0.5]),
    ),
    "observed inside": (
        lambda y: bl.Normal(bl.Normal(0.0, 1.0, name="m"), 1.0, value=y, name="y"),
        (2.0,),
        {"m": 0.5},
        stats.norm.logpdf(0.5) + stats.norm.logpdf(1.5),
    ),
    "deterministic": (
        lambda: bl.Normal(
            bl.Deterministic(2.0 * bl.Normal(0.0, 1.0, name="m"), name="twice"),
            1.0,
            name="y",
        ),
        (),
        {"m": 0.5, "y": 2.0},
        stats.norm.logpdf(0.5) + stats.norm.logpdf(1.0),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_log_joint_is_the_sum_of_the_densities(name):
    program, arguments, values, expected = PROGRAMS[name]
    result = bl.make_log_joint_fn(program)(*arguments, **values)
    assert ops.shape(result) == ()
    np.testing.assert_allclose(float(result), expected, rtol=1e-5)


def test_arguments_are_given_by_position_by_name_or_as_data():
    expected = regression_by_hand(X, W, NOISE, Y)
    latent = {"w": W, "noise": NOISE}
    log_joint = bl.make_log_joint_fn(regression)
    results = [
        log_joint(X, y=Y, **latent),
        log_joint(x=X, y=Y, **latent),
        bl.make_log_joint_fn(regression, {"x": X, "y": Y})(**latent),
        bl.make_log_joint_fn(regression, (X,))(y=Y, **latent),
    ]
    np.testing.assert_allclose([float(r) for r in results], expected, rtol=1e-5)


def test_a_missing_value_is_a_lookup_error_that_lists_all_of_them():
    log_joint = bl.make_log_joint_fn(regression)
    with pytest.raises(LookupError, match=r"'noise' of shape \(\), 'y' of shape \(3,"):
        log_joint(X, w=W)
    with pytest.raises(LookupError, match="one without a name"):
        bl.make_log_joint_fn(lambda: bl.Normal(0.0, 1.0))()


def test_an_unknown_name_and_a_name_used_twice_are_errors():
    log_joint = bl.make_log_joint_fn(regression, {"x": X, "y": Y})
    with pytest.raises(ValueError, match=r"no random variables \['v'\].*'noise'"):
        log_joint(w=W, noise=NOISE, v=1.0)

    def twice():
        bl.Normal(0.0, 1.0, name="w")
        bl.Normal(0.0, 1.0, name="w")

    with pytest.raises(ValueError, match="'w' is used twice"):
        bl.make_log_joint_fn(twice)(w=1.0)


def test_a_value_of_a_wrong_shape_is_an_error():
    log_joint = bl.make_log_joint_fn(regression, {"x": X, "y": Y})
    with pytest.raises(ValueError, match=r"shape \(2,\).*shape \(3,\)"):
        log_joint(w=np.zeros(3), noise=NOISE)


def test_log_joint_is_compiled_and_differentiated():
    log_joint = bl.make_log_joint_fn(regression, {"x": X, "y": Y})

    def function(w, noise):
        return log_joint(w=w, noise=noise)

    compiled = jit(function)(*map(ops.convert_to_tensor, (W, NOISE)))
    np.testing.assert_allclose(
        float(compiled), regression_by_hand(X, W, NOISE, Y), rtol=1e-5
    )
    for gradient, expected in zip(
        grad(function, W, NOISE),
        [
            finite_difference(lambda w: regression_by_hand(X, w, NOISE, Y), W),
            finite_difference(lambda s: regression_by_hand(X, W, s, Y), NOISE),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(gradient, expected, rtol=1e-3)


def test_chains_have_one_value_each():
    log_joint = bl.make_log_joint_fn(regression, {"x": X, "y": Y})
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 2)).astype("float32")
    noise = rng.gamma(2.0, size=4).astype("float32")
    result = ops.convert_to_numpy(log_joint.over_chains(w=w, noise=noise))
    expected = [
        regression_by_hand(X, *point, Y) for point in zip(w, noise, strict=True)
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_data_that_fit_no_program_are_refused():
    with pytest.raises(TypeError, match="dictionary"):
        bl.make_log_joint_fn(regression, X)
    with pytest.raises(ValueError, match="belongs to a Keras model"):
        bl.make_log_joint_fn(regression, {"x": X}, likelihood=bl.distributions.Normal)
