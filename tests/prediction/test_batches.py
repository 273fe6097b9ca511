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


def unlabelled():
    import torch.utils.data

    return torch.utils.data.DataLoader(torch.tensor(X), batch_size=3)


def dictionaries():
    """Inputs by name, as data sets of text have them."""
    import torch.utils.data

    rows = [{"x": torch.tensor(row)} for row in X]
    return torch.utils.data.DataLoader(rows, batch_size=3)


def dataset():
    import tensorflow

    return tensorflow.data.Dataset.from_tensor_slices((X, Y)).batch(3)


KINDS = {
    "array": lambda: X,
    "tensor": lambda: keras.ops.convert_to_tensor(X),
    "generator": generator,
    "PyDataset": lambda: Sequence(workers=1),
    "DataLoader": loader,
    "unlabelled DataLoader": unlabelled,
    "tf.data": dataset,
}


def size_of(batch):
    return sum(array.nbytes for array in keras.tree.flatten(batch))


def groups_of(x, batch_size):
    return list(Batches(x, batch_size).groups(size_of))


def rows(groups):
    """The examples of groups, without those that fill up a batch."""
    return [
        array[:size]
        for group, sizes in groups
        for array, size in zip(group, sizes, strict=False)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_data_give_the_same_batches(kind):
    ((group, sizes),) = groups_of(KINDS[kind](), 3)
    assert sizes == [3, 3, 1]
    # The last batch is filled up with its last example: one shape, one compilation.
    expected = np.stack([X[:3], X[3:6], X[[6, 6, 6]]])
    np.testing.assert_array_equal(group, expected)
    assert group.dtype == "float32"


@pytest.mark.parametrize("structure", ["list", "dict"])
def test_structures_of_arrays_stay_what_they_are(structure):
    tokens = np.arange(14, dtype="int32").reshape(7, 2)
    x = [X, tokens] if structure == "list" else {"x": X, "tokens": tokens}
    ((group, sizes),) = groups_of(x, 4)
    assert sizes == [4, 3]
    first, second = group if structure == "list" else (group["x"], group["tokens"])
    assert type(group) in (list, tuple) if structure == "list" else dict
    np.testing.assert_array_equal(first, np.stack([X[:4], X[[4, 5, 6, 6]]]))
    np.testing.assert_array_equal(second, np.stack([tokens[:4], tokens[[4, 5, 6, 6]]]))
    assert second.dtype == "int32"


def test_dictionaries_of_a_loader_stay_what_they_are():
    ((group, sizes),) = groups_of(dictionaries(), 3)
    assert sizes == [3, 3, 1]
    np.testing.assert_array_equal(group["x"][:2].reshape(6, 3), X[:6])


def test_batches_of_other_shapes_are_groups_of_their_own():
    lengths = [(2, 4), (2, 4), (1, 4), (2, 5), (3, 5), (1, 4)]
    arrays = [np.full((*shape, 1), i, "float32") for i, shape in enumerate(lengths)]
    groups = groups_of(((array,) for array in arrays), 32)
    assert [sizes for _, sizes in groups] == [[2, 2, 1], [2], [3], [1]]
    for seen, expected in zip(rows(groups), arrays, strict=True):
        np.testing.assert_array_equal(seen, expected)


def test_groups_end_where_memory_does(monkeypatch):
    monkeypatch.setattr(batches, "GROUP_BYTES", 2 * X[:2].nbytes)
    groups = groups_of(X, 2)
    assert [sizes for _, sizes in groups] == [[2, 2], [2, 1]]
    np.testing.assert_array_equal(np.concatenate(rows(groups)), X)
    monkeypatch.setattr(batches, "GROUP_BYTES", 1)
    assert len(groups_of(X, 2)) == 4


@pytest.mark.parametrize(
    ("room", "kind", "expected"),
    [
        # Groups of one size where the number of batches is known, else a last one that
        # is filled up if little is missing.
        (6, "array", [4, 3]),
        (6, "generator", [6, 1]),
        (4, "generator", [4, 3]),
    ],
)
def test_groups_have_one_shape_where_that_costs_little(
    monkeypatch, room, kind, expected
):
    monkeypatch.setattr(batches, "GROUP_BYTES", room * X[:1].nbytes)
    x = X if kind == "array" else ((row[None],) for row in X)
    groups = groups_of(x, 1)
    assert [len(sizes) for _, sizes in groups] == expected
    np.testing.assert_array_equal(np.concatenate(rows(groups)), X)
    first, last = (len(group) for group, _ in groups)
    assert first == expected[0]
    assert last == (1 if expected[1] == 1 else first)


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


def test_outputs_of_several_shapes_are_refused():
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, bl.layers.DenseFlipout(2)(inputs))
    arrays = [np.zeros((2, length, 3), "float32") for length in (4, 5)]
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(5, 2\)"):
        predict(model, ((array,) for array in arrays))


def test_no_data_is_an_error(model):
    with pytest.raises(ValueError, match=r"at least one batch|empty|no data"):
        predict(model, np.zeros((0, 2, 3), "float32"))
