"""Draws by name, and what ArviZ says of them."""

import sys

import numpy as np
import pytest

import bayesian_layers as bl

RNG = np.random.default_rng(0)
VALUES = {"a": RNG.normal(size=(4, 50)), "b/c": RNG.normal(size=(4, 50, 3))}


def test_it_is_a_mapping_that_knows_its_size():
    draws = bl.Draws(VALUES, {"diverging": RNG.uniform(size=(4, 50)) < 0.1})
    assert list(draws) == ["a", "b/c"] and len(draws) == 2
    assert (draws.num_chains, draws.num_draws) == (4, 50)
    assert draws.num_divergences == draws.statistics["diverging"].sum()
    assert "4 chains of 50" in repr(draws)


def test_flat_draws_take_turns_of_chains():
    flat = bl.Draws(VALUES).flat()["b/c"]
    for index in (0, 1, 4, 199):
        expected = VALUES["b/c"][index % 4, index // 4]
        np.testing.assert_array_equal(flat[index], expected)


@pytest.mark.parametrize(
    "values", [{}, {"a": np.zeros(3)}, {"a": np.zeros((1, 3)), "b": np.zeros((2, 3))}]
)
def test_arrays_without_common_chains_and_draws_are_refused(values):
    with pytest.raises(ValueError, match=r"\[chains, draws, ...\]"):
        bl.Draws(values)


def r_hat(draws):
    """Gelman and Rubin's, of half chains."""
    halves = draws.reshape(2 * len(draws), -1)
    within, means = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1)
    count = halves.shape[1]
    return np.sqrt((count - 1) / count + means.var(ddof=1) / within)


def test_arviz_takes_draws_and_statistics():
    draws = bl.Draws(VALUES, {"diverging": np.zeros((4, 50), bool)})
    data = draws.to_arviz()
    np.testing.assert_array_equal(data["posterior"]["b.c"].values, VALUES["b/c"])
    assert data["sample_stats"]["diverging"].values.shape == (4, 50)
    table = draws.summary()
    assert list(table.index) == ["a", "b.c[0]", "b.c[1]", "b.c[2]"]
    np.testing.assert_allclose(table["mean"]["a"], VALUES["a"].mean(), atol=1e-3)
    # Theirs is of ranks too.
    np.testing.assert_allclose(table["r_hat"]["a"], r_hat(VALUES["a"]), atol=0.02)


def test_without_arviz_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r'pip install "bayesian-layers\[mcmc\]"'):
        bl.Draws(VALUES).summary()
