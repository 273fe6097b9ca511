"""The Poisson process, against closed forms and SciPy."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, stats

import bayesian_layers as bl
from tests.differentiation import run
from tests.statistics import assert_distributed_as


def array(x):
    return ops.convert_to_numpy(ops.stop_gradient(x))


def linear(slope, intercept=0.0):
    """The function intercept + slope * x."""
    slope = np.atleast_1d(slope)
    return keras.layers.Dense(
        1,
        kernel_initializer=lambda shape, dtype: ops.convert_to_tensor(
            slope[:, None], dtype
        ),
        bias_initializer=keras.initializers.Constant(intercept),
    )


@keras.saving.register_keras_serializable("tests")
class Uncertain(keras.Layer):
    """The function 0.3 + slope * x, with a standard deviation of 0.2 + x."""

    def build(self, input_shape):
        self.slope = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(0.5), name="slope"
        )

    def call(self, x):
        return bl.Normal(0.3 + self.slope * x, 0.2 + x)


@keras.saving.register_keras_serializable("tests")
class Gaussian(keras.Layer):
    """exp of it is one cycle of a bell: log intensity 4 - 20 (x - 0.4)^2."""

    def call(self, x):
        return 4.0 - 20.0 * ops.square(x - 0.4)


def points(count, size=1, low=0.0, high=1.0):
    rng = np.random.default_rng(0)
    return rng.uniform(low, high, (count, size)).astype("float32")


def log_likelihood(process, x):
    if not process.built:
        process.build(x.shape)
    return float(run(lambda x: ops.sum(process(x).log_prob(np.ones(len(x)))), x))


# Likelihoods.


def test_constant_intensity():
    process = bl.layers.PoissonProcess(linear(0.0, 1.2), -1.0, 2.0)
    x = points(7, low=-1.0, high=2.0)
    expected = 7 * 1.2 - 3.0 * np.exp(1.2)
    np.testing.assert_allclose(log_likelihood(process, x), expected, rtol=1e-5)


@pytest.mark.parametrize("num_points", [None, 30])
def test_exponential_intensity_on_an_interval(num_points):
    process = bl.layers.PoissonProcess(
        linear(1.5, 0.3), 0.0, 1.0, num_points=num_points
    )
    x = points(10)
    integral = np.exp(0.3) * (np.exp(1.5) - 1.0) / 1.5
    # Of a third of the pattern a third of the integral.
    share = 1.0 if num_points is None else 1.0 / 3.0
    expected = np.sum(0.3 + 1.5 * x.astype("float64")) - share * integral
    np.testing.assert_allclose(log_likelihood(process, x), expected, rtol=1e-5)


def test_in_two_dimensions_with_ends_of_their_own():
    process = bl.layers.PoissonProcess(linear([1.0, -2.0]), [0.0, -1.0], [2.0, 1.0])
    x = points(10, 2)
    integral = (np.exp(2.0) - 1.0) * (np.exp(2.0) - np.exp(-2.0)) / 2.0
    expected = np.sum(x.astype("float64") @ [1.0, -2.0]) - integral
    np.testing.assert_allclose(log_likelihood(process, x), expected, rtol=1e-5)


def test_softplus():
    process = bl.layers.PoissonProcess(linear(4.0, -2.0), 0.0, 1.0, "softplus")
    x = points(10)

    def intensity(x):
        return np.logaddexp(0.0, 4.0 * x - 2.0)

    integral = integrate.quad(intensity, 0.0, 1.0)[0]
    expected = np.sum(np.log(intensity(x.astype("float64")))) - integral
    np.testing.assert_allclose(log_likelihood(process, x), expected, rtol=1e-5)


def test_counts_of_points_that_coincide():
    process = bl.layers.PoissonProcess(linear(1.5), 0.0, 1.0)
    x, counts = points(3), np.array([2.0, 0.0, 1.0])
    pattern = process(x)
    share = (np.exp(1.5) - 1.0) / 1.5 / 3.0
    expected = counts * 1.5 * x[:, 0] - share
    np.testing.assert_allclose(array(pattern.log_prob(counts)), expected, rtol=1e-5)


def test_quadrature_converges_with_its_nodes():
    exact = integrate.quad(lambda x: np.exp(4.0 - 20.0 * (x - 0.4) ** 2), 0.0, 1.0)[0]
    x = np.full((1, 1), 0.4, "float32")
    errors = []
    for num_nodes in (2, 4, 8, 16):
        process = bl.layers.PoissonProcess(Gaussian(), 0.0, 1.0, num_nodes=num_nodes)
        errors.append(abs(4.0 - log_likelihood(process, x) - exact) / exact)
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[3] < 1e-6


def test_monte_carlo_has_the_error_of_its_draws():
    process = bl.layers.PoissonProcess(
        linear(1.5), 0.0, 1.0, integration="monte_carlo", num_nodes=4000, seed=1
    )
    exact = (np.exp(1.5) - 1.0) / 1.5
    variance = (np.exp(3.0) - 1.0) / 3.0 - exact**2
    x = np.zeros((1, 1), "float32")
    first, second = (
        -float(array(ops.sum(process(x).log_prob(np.ones(1))))) for _ in range(2)
    )
    # Six standard errors: 2e-9.
    allowed = 6.0 * np.sqrt(variance / 4000)
    assert allowed < 0.15
    assert max(abs(first - exact), abs(second - exact)) < allowed
    assert first != second


# Random functions.


@pytest.mark.parametrize("link", ["exp", "softplus"])
def test_an_uncertain_function_gives_the_expected_log_likelihood(link):
    process = bl.layers.PoissonProcess(Uncertain(), 0.0, 1.0, link)
    process.build((None, 1))
    x = points(5)
    function = np.exp if link == "exp" else lambda f: np.logaddexp(0.0, f)

    def over_f(transform, x):
        normal = stats.norm(0.3 + 0.5 * x, 0.2 + x)
        ends = normal.mean() + np.array([-12.0, 12.0]) * normal.std()
        return integrate.quad(lambda f: transform(f) * normal.pdf(f), *ends)[0]

    integral = integrate.quad(lambda x: over_f(function, x), 0.0, 1.0)[0]
    places = x[:, 0].astype("float64")
    logs = [over_f(lambda f: np.log(function(f)), place) for place in places]

    def evaluate(x):
        pattern = process(x)
        terms = pattern.expected_log_prob(np.ones(5))
        return terms, pattern.mean(), pattern.variance(), pattern.value

    terms, mean, variance, value = run(evaluate, x)
    np.testing.assert_allclose(terms, np.array(logs) - integral / 5, rtol=2e-4)
    means = np.array([over_f(function, place) for place in places])
    seconds = [over_f(lambda f: function(f) ** 2, place) for place in places]
    np.testing.assert_allclose(mean, means, rtol=1e-4)
    np.testing.assert_allclose(variance, np.array(seconds) - means**2, rtol=1e-3)
    np.testing.assert_array_equal(value, mean)
    intensity = run(process.intensity, x)
    np.testing.assert_allclose(intensity, mean, rtol=1e-6)


def test_points_and_integral_are_of_one_draw_of_the_function():
    random = bl.layers.DenseReparameterization(
        1,
        kernel_initializer="zeros",
        kernel_regularizer=None,
        bias_initializer=bl.initializers.TrainableNormal(
            stddev_initializer=keras.initializers.Constant(1.0)
        ),
        seed=1,
    )
    process = bl.layers.PoissonProcess(random, 0.0, 1.0)
    x = points(4)
    for _ in range(3):
        pattern = process(x).distribution
        # Of a constant the integral is the value.
        share = array(pattern.share)
        np.testing.assert_allclose(4 * share, array(pattern.intensity)[0], rtol=1e-5)


# Training.


def test_the_homogeneous_maximum_is_found_by_fit():
    function = keras.layers.Dense(1, kernel_initializer="zeros", name="f")
    process = bl.layers.PoissonProcess(function, 0.0, 4.0, num_points=60)
    model = keras.Sequential([keras.Input((1,)), process])
    model.compile(keras.optimizers.Adam(0.1), bl.losses.NegativeLogLikelihood())
    x = np.linspace(0.0, 4.0, 60, dtype="float32")[:, None]
    # Each batch is the pattern; an epoch for each would take longer.
    steps = np.tile(x, (150, 1))
    model.fit(steps, np.ones(9000), batch_size=60, shuffle=False, verbose=0)
    # Points as even as these have a constant intensity of 60 / 4.
    intensity = model.predict(x, verbose=0)
    np.testing.assert_allclose(intensity, np.full(60, 15.0), rtol=0.05)
    loss = model.evaluate(x, np.ones(60), verbose=0)
    np.testing.assert_allclose(loss, 1.0 - np.log(15.0), atol=5e-3)


@pytest.mark.parametrize("link", ["exp", "softplus"])
@pytest.mark.parametrize("integration", ["quadrature", "monte_carlo"])
def test_save_and_load(integration, link, tmp_path):
    process = bl.layers.PoissonProcess(
        Uncertain(),
        [0.0],
        1.0,
        link,
        integration=integration,
        num_nodes=9,
        num_points=6,
        seed=1,
    )
    model = keras.Sequential([keras.Input((1,)), process])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    x = points(6)
    model.fit(x, np.ones(6), epochs=2, verbose=0)
    assert array(process.function.slope) != 0.5
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    # Tuples are lists in a file.
    first, second = (
        json.loads(json.dumps(p.get_config())) for p in (process, loaded.layers[-1])
    )
    assert first == second
    np.testing.assert_array_equal(*(m.predict(x, verbose=0) for m in (model, loaded)))
    prediction = bl.predict(loaded, x, num_samples=2, seed=1)
    np.testing.assert_allclose(prediction.mean, loaded.predict(x, verbose=0), rtol=1e-5)


def test_a_model_is_a_function_too(tmp_path):
    function = keras.Sequential(
        [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    )
    process = bl.layers.PoissonProcess(function, 0.0, 1.0, num_points=6)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, process(inputs))
    assert len(model.trainable_variables) == 4
    x = points(6, 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = array(ops.exp(function(x)))[:, 0]
    for intensity in (array(model(x)), array(loaded(x))):
        np.testing.assert_allclose(intensity, expected, rtol=1e-5)


def test_training_without_the_number_of_points_warns():
    process = bl.layers.PoissonProcess(linear(0.0), 0.0, 1.0)
    process(points(3))
    with pytest.warns(UserWarning, match="Give `num_points`"):
        process(points(3), training=True)


def test_mixed_precision():
    process = bl.layers.PoissonProcess(
        keras.layers.Dense(1, kernel_initializer="zeros", dtype="mixed_bfloat16"),
        0.0,
        1.0,
        dtype="mixed_bfloat16",
    )
    pattern = process(points(4))
    assert pattern.distribution.parameter_dtype == "float32"
    terms = array(pattern.log_prob(np.ones(4)))
    np.testing.assert_allclose(terms, np.full(4, -0.25), rtol=1e-2)


# Patterns.


def test_patterns_follow_the_intensity():
    process = bl.layers.PoissonProcess(Gaussian(), 0.0, 1.0)
    process.build((None, 1))

    def integral(low, high):
        return integrate.quad(lambda x: np.exp(4.0 - 20.0 * (x - 0.4) ** 2), low, high)[
            0
        ]

    patterns = [process.sample(seed=seed) for seed in range(150)]
    x = np.concatenate(patterns)
    assert x.ndim == 2 and x.shape[1] == 1
    whole = integral(0.0, 1.0)
    grid = np.linspace(0.0, 1.0, 1001)
    cdf = np.array([integral(0.0, end) for end in grid]) / whole
    assert_distributed_as(x[:, 0], lambda v: np.interp(v, grid, cdf), detect=0.1)
    sizes = np.array([len(pattern) for pattern in patterns])
    # The mean and variance of a Poisson number, six standard errors: 2e-9.
    assert abs(sizes.mean() - whole) < 6.0 * np.sqrt(whole / 150)
    assert abs(sizes.var() / whole - 1.0) < 6.0 * np.sqrt(2.0 / 150)
    np.testing.assert_array_equal(patterns[3], process.sample(seed=3))


def test_a_bound_that_was_too_low_is_raised():
    class Peak(keras.Layer):
        """A peak that lies between the places where the bound is looked for."""

        def call(self, x):
            return 3.0 * ops.exp(-ops.square((x - 1.0 / 3.0) * 2e5)) + 7.0

    process = bl.layers.PoissonProcess(Peak(), 0.3332, 0.33346)
    process.build((None, 1))
    raised = []
    look = process._drawn_intensity

    def looked(x):
        raised.append(len(x))
        return look(x)

    process._drawn_intensity = looked
    process._thinned(np.random.default_rng(0))
    assert len(raised) >= 2


def test_a_random_function_is_drawn_once_for_a_pattern():
    random = bl.layers.DenseReparameterization(
        1,
        kernel_initializer="zeros",
        kernel_regularizer=None,
        bias_initializer=bl.initializers.TrainableNormal(
            mean_initializer=keras.initializers.Constant(4.0),
            stddev_initializer=keras.initializers.Constant(1.0),
        ),
        seed=1,
    )
    process = bl.layers.PoissonProcess(random, 0.0, 1.0)
    process.build((None, 1))
    sizes = np.array([len(process.sample(seed=seed)) for seed in range(30)])
    # Log-normal rates: far more than a Poisson number's variance.
    assert sizes.var() > 5.0 * sizes.mean()


def test_a_function_that_stays_uncertain_has_no_patterns():
    process = bl.layers.PoissonProcess(Uncertain(), 0.0, 1.0)
    process.build((None, 1))
    with pytest.raises(ValueError, match="stays uncertain"):
        process.sample(seed=1)


# Errors.


def test_wrong_arguments_are_refused():
    f = keras.layers.Dense(1)
    for arguments, named, message in (
        ((abs, 0.0, 1.0), {}, "from \\[n, D\\] to \\[n, 1\\]"),
        ((f, 1.0, 1.0), {}, "low=1.0, high=1.0"),
        ((f, 0.0, np.inf), {}, "finite"),
        ((f, 0.0, 1.0, "log"), {}, "link='log'"),
        ((f, 0.0, 1.0), {"integration": "sum"}, "integration='sum'"),
        ((f, 0.0, 1.0), {"num_nodes": 0}, "num_nodes=0"),
        ((f, 0.0, 1.0), {"num_points": 2.5}, "num_points=2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            bl.layers.PoissonProcess(*arguments, **named)


def test_what_a_grid_cannot_do_is_refused():
    def process(**kwargs):
        return bl.layers.PoissonProcess(keras.layers.Dense(1), 0.0, 1.0, **kwargs)

    with pytest.raises(ValueError, match="a grid in 4 dimensions.*monte_carlo"):
        process()(points(3, 4))
    with pytest.raises(ValueError, match=r"50\*\*3 nodes.*monte_carlo"):
        process(num_nodes=50)(points(3, 3))
    assert tuple(process(integration="monte_carlo")(points(3, 4)).shape) == (3,)
    with pytest.raises(ValueError, match="as many ends"):
        bl.layers.PoissonProcess(keras.layers.Dense(1), [0.0, 0.0], 1.0)(points(3, 3))
    with pytest.raises(ValueError, match="a function to"):
        bl.layers.PoissonProcess(keras.layers.Dense(2), 0.0, 1.0)(points(3))
    with pytest.raises(ValueError, match="lie in the region"):
        process()(points(3) + 1.0)
    with pytest.raises(ValueError, match="not built"):
        process().sample()


def test_it_trains_in_a_region_far_from_the_numbers_that_keras_builds_models_with():
    x = points(20, low=10.0, high=12.0)
    process = bl.layers.PoissonProcess(linear(0.1), 10.0, 12.0, num_points=20)
    model = keras.Sequential([keras.Input((1,)), process])
    model.compile("sgd", bl.losses.NegativeLogLikelihood())
    history = model.fit(x, np.ones(20), verbose=0)
    assert np.isfinite(history.history["loss"][0])
