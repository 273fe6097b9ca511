"""Memory is bounded by what the user sets, not by the size of the inputs."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.prediction import batches
from bayesian_layers.prediction.collected import Rows
from bayesian_layers.prediction.program import Settings, num_bytes, program_of


@pytest.fixture(scope="module")
def model():
    """A head with 40,000 numbers for each of 40 inputs."""
    layers = [keras.layers.Dense(4), bl.layers.DenseFlipout(40_000)]
    heads = [keras.layers.Reshape((200, 200)), bl.layers.Categorical()]
    return keras.Sequential([keras.Input((1,)), *layers, *heads])


def groups(model, x, batch_size, monkeypatch, **kwargs):
    """The sizes of the groups that a prediction was run in."""
    seen = []
    original = batches.Batches.groups

    def record(self, bytes_of):
        for group, sizes in original(self, bytes_of):
            seen.append(len(sizes))
            yield group, sizes

    monkeypatch.setattr(batches.Batches, "groups", record)
    bl.predict(model, x, 2, batch_size, seed=1, verbose=0, **kwargs)
    return seen


def test_batches_are_grouped_by_the_size_of_their_outputs(model, monkeypatch):
    # A batch of 2 has 320,000 bytes of probabilities, and inputs of 8.
    monkeypatch.setattr(batches, "GROUP_BYTES", 1_000_000)
    x = np.zeros((12, 1), "float32")
    assert groups(model, x, 2, monkeypatch, store_samples=False) == [3, 3]
    # The outputs of 2 draws are stored besides.
    assert groups(model, x, 2, monkeypatch, store_samples=True) == [1] * 6


def test_batches_are_grouped_by_the_size_of_their_features(monkeypatch):
    # What is computed once for all draws is kept while these run.
    inputs = keras.Input((1,))
    wide = keras.layers.Dense(40_000)(inputs)
    outputs = bl.layers.DenseFlipout(1, use_bias=False)(wide)
    model = keras.Model(inputs, outputs)
    monkeypatch.setattr(batches, "GROUP_BYTES", 1_000_000)
    x = np.zeros((12, 1), "float32")
    assert groups(model, x, 2, monkeypatch, store_samples=False) == [3, 3]


def test_no_array_of_all_draws_is_made(model):
    if keras.backend.backend() != "jax":
        pytest.skip("Only JAX tells what a compiled program needs.")
    x = np.zeros((4, 1), "float32")
    needed = []
    for num_samples in (2, 16):
        program = program_of(model, Settings(store_samples=False))
        features = program.features(x[None])
        totals = program.start(x[None])
        draws = (
            np.zeros((num_samples, program.num_weights), "int32"),
            np.zeros((num_samples, 1, program.num_generators), "int32"),
            [],  # None are given.
        )
        done = keras.ops.convert_to_tensor(0, "int32")
        compiled = program._run.lower(
            program._values(), features, program._tensors(draws), totals, done
        ).compile()
        memory = compiled.memory_analysis()
        needed.append(memory.temp_size_in_bytes + memory.output_size_in_bytes)
    # One draw of the outputs takes 640,000 bytes: 14 more would take 9 million.
    assert needed[1] < needed[0] + 100_000


def test_results_grow_where_they_are():
    rows = Rows()
    for start in range(0, 12, 4):
        rows.append(np.arange(start, start + 4, dtype="float32")[:, None])
    np.testing.assert_array_equal(rows.array, np.arange(12.0)[:, None])
    with pytest.raises(ValueError, match=r"\(1,\) and \(2,\)"):
        rows.append(np.zeros((3, 2)))


def test_entropies_of_many_classes_are_computed_in_blocks(model, monkeypatch):
    x = np.linspace(-1.0, 1.0, 5, dtype="float32")[:, None]
    prediction = bl.predict(model, x, 2, seed=1, verbose=0, store_samples=False)
    probs = prediction.probs.astype("float64")
    expected = -(probs * np.log(probs)).sum(axis=-1)
    # Blocks of 2 examples: 2, 2 and 1.
    monkeypatch.setattr(
        "bayesian_layers.prediction.prediction.BLOCK_BYTES", 2 * probs[0].nbytes // 2
    )
    assert prediction.entropy.shape == (5, 200)
    np.testing.assert_allclose(prediction.entropy, expected, rtol=1e-5)


def test_sizes_count_the_tensors_of_distributions():
    distribution = bl.distributions.Normal(np.zeros((3, 2), "float32"), 1.0)
    assert num_bytes([distribution, np.zeros(5, "float32")]) == 4 * (6 + 6 + 5)
