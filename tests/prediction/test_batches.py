"""Data of all kinds, in groups of one shape."""

import keras
import numpy as np
import pytest

import bayesian_layers as bl
from bayesian_layers.prediction import batches
from bayesian_layers.prediction.batches import Batches

X = np.arange(21.0, dtype="float32").reshape(7, 3)
Y = np.zeros(7, "float32")


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return X[3 * index : 3 * index + 3], Y[3 * index : 3 * index + 3]


def generator():
    for start in range(0, 7, 3):
        yield (X[start : start + 3],)


def loader():
    import torch.utils.data

    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    return torch.utils.data.DataLoader(data, batch_size=3)


def dataset():
    import tensorflow

    return tensorflow.data.Dataset.from_tensor_slices((X, Y)).batch(3)


KINDS = {
    "array": lambda: X,
    "tensor": lambda: keras.ops.convert_to_tensor(X),
    "generator": generator,
    "PyDataset": lambda: Sequence(workers=1),
    "DataLoader": loader,
    "tf.data": dataset,
}


def rows(groups):
    """The examples of groups, without those that fill up a batch."""
    return [
        array[:size]
        for group, sizes in groups
        for array, size in zip(group, sizes, strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_data_give_the_same_batches(kind):
    ((group, sizes),) = Batches(KINDS[kind](), batch_size=3).groups()
    assert sizes == [3, 3, 1]
    # The last batch is filled up with its last example: one shape, one compilation.
    expected = np.stack([X[:3], X[3:6], X[[6, 6, 6]]])
    np.testing.assert_array_equal(group, expected)
    assert group.dtype == "float32"


@pytest.mark.parametrize("structure", ["list", "dict"])
def test_structures_of_arrays_stay_what_they_are(structure):
    tokens = np.arange(14, dtype="int32").reshape(7, 2)
    x = [X, tokens] if structure == "list" else {"x": X, "tokens": tokens}
    ((group, sizes),) = Batches(x, batch_size=4).groups()
    assert sizes == [4, 3]
    first, second = group if structure == "list" else (group["x"], group["tokens"])
    assert type(group) in (list, tuple) if structure == "list" else dict
    np.testing.assert_array_equal(first, np.stack([X[:4], X[[4, 5, 6, 6]]]))
    np.testing.assert_array_equal(second, np.stack([tokens[:4], tokens[[4, 5, 6, 6]]]))
    assert second.dtype == "int32"


def test_batches_of_other_shapes_are_groups_of_their_own():
    lengths = [(2, 4), (2, 4), (1, 4), (2, 5), (3, 5), (1, 4)]
    arrays = [np.full((*shape, 1), i, "float32") for i, shape in enumerate(lengths)]
    groups = list(Batches(((array,) for array in arrays), batch_size=32).groups())
    assert [sizes for _, sizes in groups] == [[2, 2, 1], [2], [3], [1]]
    for seen, expected in zip(rows(groups), arrays, strict=True):
        np.testing.assert_array_equal(seen, expected)


def test_groups_end_where_memory_does(monkeypatch):
    monkeypatch.setattr(batches, "GROUP_BYTES", 2 * X[:2].nbytes)
    groups = list(Batches(X, batch_size=2).groups())
    assert [sizes for _, sizes in groups] == [[2, 2], [2, 1]]
    np.testing.assert_array_equal(np.concatenate(rows(groups)), X)
    monkeypatch.setattr(batches, "GROUP_BYTES", 1)
    assert len(list(Batches(X, batch_size=2).groups())) == 4


@pytest.fixture(scope="module")
def model():
    """A linear function of the last axis."""
    inputs = keras.Input((None, 3))
    outputs = bl.layers.DenseFlipout(2, use_bias=False)(inputs)
    return keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(outputs))


def predict(model, x, **kwargs):
    return bl.predict(model, x, num_samples=4, seed=1, verbose=0, **kwargs)


def test_a_draw_is_one_function_over_groups_of_varying_shapes(model):
    # Averages over 1, 2 and 3 steps: the first group tells the kernels.
    x = [X[:, None], np.stack([X, X + 1], 1), np.stack([X, X, X - 3], 1)]
    arrays = [np.eye(3, dtype="float32")[:, None], *x]
    samples = predict(model, ((array,) for array in arrays)).samples
    assert samples.shape == (4, 3 + 3 * 7, 2)
    expected = np.concatenate([X, X + 0.5, X - 1.0]) @ samples[:, :3]
    np.testing.assert_allclose(samples[:, 3:], expected, rtol=1e-4, atol=1e-4)


def test_predictions_of_all_kinds_of_data_are_equal():
    model = keras.Sequential([keras.Input((3,)), bl.layers.DenseFlipout(2)])
    expected = predict(model, X, batch_size=3).samples
    for make in KINDS.values():
        np.testing.assert_allclose(
            predict(model, make(), batch_size=3).samples, expected, atol=1e-5
        )


def test_no_data_is_an_error(model):
    with pytest.raises(ValueError, match=r"at least one batch|empty|no data"):
        predict(model, np.zeros((0, 2, 3), "float32"))
