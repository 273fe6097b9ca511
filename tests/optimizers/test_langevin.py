"""SGLD and SGHMC: the distribution that training ends in, and what Keras asks for."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import linalg

import bayesian_layers as bl
from tests.statistics import assert_mean, assert_uncorrelated, assert_variance

# Linear regression with known noise: its posterior is normal.
RNG = np.random.default_rng(0)
COUNT, NOISE, PRIOR = 64, 0.5, 2.0
X = RNG.normal(size=(COUNT, 2)).astype("float32") @ np.array(
    [[1.0, 0.6], [0.0, 0.5]], "float32"
)
Y = (X @ [[1.0], [-2.0]] + NOISE * RNG.normal(size=(COUNT, 1))).astype("float32")
PRECISION = X.T.astype("float64") @ X / NOISE**2 + np.eye(2) / PRIOR**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ X.T @ Y[:, 0] / NOISE**2

OPTIMIZERS = {"SGLD": bl.optimizers.SGLD, "SGHMC": bl.optimizers.SGHMC}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def by_l2(units=1):
    penalty = keras.regularizers.L2(1.0 / (2 * COUNT * PRIOR**2))
    return keras.layers.Dense(units, use_bias=False, kernel_regularizer=penalty)


def by_prior():
    return bl.layers.DenseReparameterization(
        1,
        use_bias=False,
        kernel_initializer="trainable_deterministic",
        kernel_regularizer=bl.regularizers.NormalKLDivergence(stddev=PRIOR),
    )


def by_decay():
    return keras.layers.Dense(1, use_bias=False)


def loss(y, f):
    """The negative log-likelihood of each example, but for its constant."""
    return ops.sum(ops.square(y - f), axis=-1) / (2 * NOISE**2)


def stationary(rate, momentum, temperature=1.0):
    """The covariance of the chain, which is linear, by the equation of Lyapunov.

    With full batches it is the whole truth; for small rates it is the posterior's.
    """
    curvature, eye = PRECISION / COUNT, np.eye(2)
    friction = 1.0 - momentum
    step = np.block(
        [
            [eye - rate * curvature, momentum * eye],
            [-rate * curvature, momentum * eye],
        ]
    )
    noise = 2 * friction * rate * temperature / COUNT * np.kron(np.ones((2, 2)), eye)
    return linalg.solve_discrete_lyapunov(step, noise)[:2, :2]


def trained(layer, optimizer, steps, every, burn_in=100, y=Y):
    model = keras.Sequential([keras.Input((2,)), layer])
    if isinstance(layer, bl.layers.RandomWeights):
        bl.scale_kl(model, dataset_size=COUNT)
    model.compile(optimizer, loss)
    callback = bl.callbacks.CollectDraws(burn_in=burn_in, every=every)
    # Whole batches, many in one epoch: `fit` has a price for each.
    repeated = np.tile(X, (100, 1)), np.tile(y, (100, 1))
    model.fit(
        *repeated,
        batch_size=COUNT,
        epochs=steps // 100,
        shuffle=False,
        verbose=0,
        callbacks=[callback],
    )
    return model, callback.draws


# The columns of a wide layer, whose losses are added, are independent chains.
CHAINS = 2000


@every_optimizer
def test_the_draws_are_those_of_the_posterior(name):
    rate, momentum = {"SGLD": (0.04, 0.0), "SGHMC": (0.01, 0.8)}[name]
    arguments = {"momentum": momentum} if name == "SGHMC" else {}
    optimizer = OPTIMIZERS[name](rate, COUNT, seed=1, **arguments)
    exact = stationary(rate, momentum)
    # The rate is so small that the bias is below three percent.
    np.testing.assert_allclose(exact, COVARIANCE, rtol=0.03)
    targets = np.tile(Y, (1, CHAINS))
    _, draws = trained(by_l2(CHAINS), optimizer, 900, every=300, burn_in=300, y=targets)
    (kernel,) = draws.values()
    assert kernel.shape == (1, 2, 2, CHAINS)
    # Draws 300 steps apart, of independent chains: their correlation is below 0.001.
    samples = np.swapaxes(kernel[0], 1, 2).reshape(-1, 2)
    assert_mean(samples, MEAN, detect=0.15 * np.sqrt(np.diag(COVARIANCE)))
    assert_variance(samples, np.diag(exact), detect=0.22 * np.diag(COVARIANCE))
    whitened = (samples - MEAN) @ np.linalg.inv(linalg.sqrtm(exact))
    assert_uncorrelated(whitened[:, :1], whitened[:, 1:], detect=0.15)
    assert_uncorrelated(samples[:-CHAINS], samples[CHAINS:], detect=0.25)


PRIORS = {"L2": (by_l2, {}), "bl": (by_prior, {})}
PRIORS["weight decay"] = (by_decay, {"weight_decay": 1.0 / (COUNT * PRIOR**2)})


@pytest.mark.parametrize("prior", PRIORS)
def test_the_priors_are_one_prior(prior):
    """Without noise the chain ends at the mode, which is the mean, of the posterior."""
    make, arguments = PRIORS[prior]
    optimizer = bl.optimizers.SGLD(0.2, COUNT, temperature=0.0, **arguments)
    model, _ = trained(make(), optimizer, 300, every=100)
    np.testing.assert_allclose(model.get_weights()[0][:, 0], MEAN, atol=1e-4)
    no_prior = np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]
    assert np.abs(no_prior - MEAN).max() > 1e-3  # A missing prior would show.


@every_optimizer
def test_the_noise_of_one_step_is_as_stated(name):
    rate, momentum, temperature, size = 0.25, 0.6, 0.5, 20_000
    arguments = {"momentum": momentum} if name == "SGHMC" else {}
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [rate, 0.0])
    optimizer = OPTIMIZERS[name](
        schedule, 100, temperature=temperature, seed=3, **arguments
    )
    variable = keras.Variable(np.ones(size, "float32"))
    optimizer.apply([np.full(size, 2.0, "float32")], [variable])
    moved = ops.convert_to_numpy(variable) - 1.0
    friction = 1.0 - momentum if name == "SGHMC" else 1.0
    variance = 2 * friction * rate * temperature / 100
    assert_mean(moved, -rate * 2.0, detect=0.01)
    assert_variance(moved, variance, detect=0.1 * variance)
    # At a rate of 0 only the momentum moves.
    before = ops.convert_to_numpy(variable)
    optimizer.apply([np.full(size, 2.0, "float32")], [variable])
    second = ops.convert_to_numpy(variable) - before
    expected = momentum * moved if name == "SGHMC" else 0.0
    np.testing.assert_allclose(second, np.broadcast_to(expected, size), atol=1e-5)


def test_noise_is_fresh_for_each_step_and_each_variable():
    optimizer = bl.optimizers.SGLD(0.5, 1, seed=3)
    variables = [keras.Variable(np.zeros(4000, "float32")) for _ in range(2)]
    positions = []
    for _ in range(3):
        optimizer.apply([np.zeros(4000, "float32")] * 2, variables)
        positions.append([ops.convert_to_numpy(v) for v in variables])
    steps = np.diff(np.array(positions), axis=0).reshape(4, -1).T
    for i in range(4):
        for j in range(i):
            assert_uncorrelated(steps[:, i], steps[:, j], detect=0.2)


@every_optimizer
def test_equal_seeds_are_equal_chains(name):
    def end(seed):
        optimizer = OPTIMIZERS[name](0.01, dataset_size=COUNT, seed=seed)
        model = keras.Sequential([keras.Input((2,)), by_l2()])
        model.compile(optimizer, loss)
        model.set_weights([np.zeros((2, 1), "float32")])
        model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()[0]

    np.testing.assert_array_equal(end(1), end(1))
    assert np.abs(end(1) - end(2)).max() > 1e-4


@every_optimizer
def test_config_and_file_round_trip(name, tmp_path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.5)
    optimizer = OPTIMIZERS[name](
        schedule, dataset_size=COUNT, temperature=0.5, seed=7, weight_decay=0.1
    )
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()
    model = keras.Sequential([keras.Input((2,)), by_decay()])
    model.compile(optimizer, "mse")
    model.fit(X, Y, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == optimizer.get_config()
    for one in (model, loaded):  # The chain goes on where it was, noise included.
        one.fit(X, Y, verbose=0, shuffle=False)
    np.testing.assert_allclose(
        loaded.get_weights()[0], model.get_weights()[0], rtol=1e-5
    )


def test_noise_reaches_rows_of_an_embedding_that_no_example_uses():
    model = keras.Sequential([keras.layers.Embedding(5, 3), keras.layers.Flatten()])
    model.compile(bl.optimizers.SGHMC(0.1, dataset_size=10, seed=1), "mse")
    model.build((None, 1))
    before = model.get_weights()[0].copy()
    model.fit(np.zeros((4, 1), "int32"), np.ones((4, 3)), verbose=0)
    assert np.all(model.get_weights()[0] != before)


def test_accumulated_gradients_are_one_step():
    """Half of the batches, and two for each step: the same number of noises."""
    ends = []
    for arguments, batch in (({}, COUNT), ({"gradient_accumulation_steps": 2}, 32)):
        optimizer = bl.optimizers.SGLD(0.05, COUNT, seed=5, **arguments)
        model = keras.Sequential([keras.Input((2,)), by_decay()])
        model.compile(optimizer, loss)
        model.set_weights([np.zeros((2, 1), "float32")])
        model.fit(X, Y, batch_size=batch, epochs=5, shuffle=False, verbose=0)
        ends.append(model.get_weights()[0])
    np.testing.assert_allclose(*ends, rtol=1e-4)


BAD = {
    "no size": ({"dataset_size": None}, "dataset_size=len"),
    "size": ({"dataset_size": 0}, "dataset_size=0"),
    "temperature": ({"dataset_size": 1, "temperature": -1.0}, "temperature=-1.0"),
    "average": ({"dataset_size": 1, "use_ema": True}, "no draw"),
}


@every_optimizer
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(name, case):
    arguments, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        OPTIMIZERS[name](0.1, **arguments)


@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_a_momentum_without_friction_is_refused(momentum):
    with pytest.raises(ValueError, match=f"momentum={momentum}"):
        bl.optimizers.SGHMC(0.1, 10, momentum=momentum)
