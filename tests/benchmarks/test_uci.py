"""The benchmark of UCI data runs, small, by the usual protocol."""

import importlib
import json
import pathlib

import numpy as np
import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, size=(41, 3)) * [1.0, 10.0, 0.0]  # The last is constant.
Y = 5.0 + 4.0 * np.sin(X[:, 0])


@pytest.fixture
def uci(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("uci")


@pytest.fixture
def recipes(uci, monkeypatch):
    """The recipes, with a few steps of training."""
    recipes = importlib.import_module("uci_recipes")
    fit = recipes.fit
    monkeypatch.setattr(recipes, "STEPS_OF_EPOCH", 1)
    monkeypatch.setattr(
        recipes,
        "fit",
        lambda model, x, y, _, *args, **kw: fit(model, x, y, 2, *args, **kw),
    )
    return recipes


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "waves.npz"
    np.savez(path, X=X, y=Y)
    return path


def test_splits_are_those_of_the_usual_protocol(uci):
    rng = np.random.RandomState(1)
    for number in range(3):
        order = rng.choice(range(41), 41, replace=False)
        train, test = order[:37], order[37:]
        (x, y), (x_new, y_new), unit = uci.split(X, Y[:, None], number)
        mean, stddev = X[train].mean(axis=0), X[train].std(axis=0)
        stddev[2] = 1.0
        np.testing.assert_allclose(x, (X[train] - mean) / stddev, atol=1e-5)
        np.testing.assert_allclose(x_new, (X[test] - mean) / stddev, atol=1e-5)
        targets = (Y - Y[train].mean()) / Y[train].std()
        np.testing.assert_allclose(y[:, 0], targets[train], atol=1e-5)
        np.testing.assert_allclose(y_new[:, 0], targets[test], atol=1e-5)
        np.testing.assert_allclose(unit, Y[train].std())


def test_validation_never_sees_the_test_data(uci):
    order = np.random.RandomState(1).permutation(41)
    train, held_out = order[:33], order[33:37]
    (x, y), (x_new, y_new), unit = uci.split(X, Y[:, None], 0, validate=True)
    targets = (Y - Y[train].mean()) / Y[train].std()
    np.testing.assert_allclose(y[:, 0], targets[train], atol=1e-5)
    np.testing.assert_allclose(y_new[:, 0], targets[held_out], atol=1e-5)
    mean, stddev = X[train].mean(axis=0), X[train].std(axis=0)
    stddev[2] = 1.0
    np.testing.assert_allclose(x_new, (X[held_out] - mean) / stddev, atol=1e-5)
    assert len(x) == 33 and unit == pytest.approx(Y[train].std())


class Certain:
    """A prediction of standard normal outputs, whatever the inputs."""

    def __init__(self, x):
        self.mean = np.zeros((len(x), 1))

    def interval(self, probability):
        return self.mean - 1.0, self.mean + 1.0

    def log_prob(self, y):
        return -0.5 * np.log(2.0 * np.pi) - 0.5 * y[:, 0] ** 2


def test_results_are_in_the_units_of_the_data(uci, recipes, file, monkeypatch):
    monkeypatch.setitem(recipes.RECIPES, "certain", lambda x, y, seed: Certain)
    result = uci.run(file, "certain", 0)
    order = np.random.RandomState(1).permutation(41)
    train, test = Y[order[:37]], Y[order[37:]]
    error, unit = test - train.mean(), train.std()
    log_prob = -0.5 * np.log(2.0 * np.pi * unit**2) - 0.5 * (error / unit) ** 2
    assert result["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert result["log_likelihood"] == pytest.approx(np.mean(log_prob), rel=1e-5)
    assert result["coverage"] == np.mean(np.abs(error) <= unit)


def test_a_run_goes_on_where_it_was_cut_short(
    uci, recipes, file, monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(recipes.RECIPES, "certain", lambda x, y, seed: Certain)
    monkeypatch.setattr(uci.os, "sched_setaffinity", lambda *_: None, raising=False)
    arguments = ["--output", str(tmp_path), "--data", str(file)]
    options = uci.parse([*arguments, "--methods", "certain", "--processes", "1"])
    assert uci.parse([*arguments, "--quick"]).splits == 3
    options.splits = 2
    (tmp_path / "waves_certain_0.json").write_text(
        json.dumps({"log_likelihood": 1.0, "rmse": 2.0, "coverage": 0.5, "seconds": 3})
    )
    uci.work(options, 0)
    second = json.loads((tmp_path / "waves_certain_1.json").read_text())
    options.validate = True  # Has results of its own.
    options.splits = 1
    uci.work(options, 0)
    assert (tmp_path / "waves_certain_0_validated.json").exists()
    options.validate, options.splits = False, 2
    uci.table(options)
    row = capsys.readouterr().out.splitlines()[-1]
    mean = 0.5 * (1.0 + second["log_likelihood"])
    assert row.startswith("waves, certain") and f"{mean:.3f}" in row


def test_means_have_as_many_decimals_as_show_their_errors(uci):
    assert uci.with_error([1.0, 3.0]) == "2.000 +-1.000"
    assert uci.with_error([0.00012, 0.00016]) == "0.00014 +-0.00002"
    assert uci.with_error([2.5, 2.5]) == "2.500 +-0.000"
    assert uci.with_error([2.5]) == "2.500 +-nan"


def test_a_data_set_that_is_not_there_is_told(uci, tmp_path):
    with pytest.raises(SystemExit, match="no boston.npz below"):
        uci.files_of(["boston"], tmp_path)
    assert uci.files_of([], None) == {"diabetes": None}
    assert len(uci.load(None)[0]) == 442


def names_of_recipes():
    """Half a minute of compilation on JAX, but for two."""
    slow = pytest.mark.slow
    names = ("flipout", "local", "moments", "ensemble", "deep_gp_2", "deep_gp_3")
    return ["dropout", "sparse_gp", *(pytest.param(name, marks=slow) for name in names)]


@pytest.mark.parametrize("name", names_of_recipes())
def test_recipes_of_tables_train_and_predict(uci, recipes, file, name):
    result = uci.run(file, name, 0)
    assert np.all(np.isfinite(list(result.values())))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*diverged")
def test_nuts_of_tables_predicts(uci, recipes, monkeypatch):
    bl = recipes.bl
    if recipes.keras.backend.backend() != "jax":
        pytest.skip("Chains run on JAX.")
    x, y = X[:, :2].astype("float32"), Y[:, None].astype("float32")
    mcmc = bl.mcmc
    monkeypatch.setattr(
        bl,
        "mcmc",
        lambda *args, **kwargs: mcmc(*args, **{**kwargs, "max_tree_depth": 2}),
    )
    prediction = recipes.nuts(x, y, seed=0, num_draws=100)(x)
    assert prediction.num_samples == 200
    assert np.all(np.isfinite(prediction.log_prob(y)))


def test_every_recipe_of_tables_is_tested(recipes):
    named = [getattr(name, "values", [name])[0] for name in names_of_recipes()]
    assert set(recipes.RECIPES) - {"nuts", "certain"} == set(named)
