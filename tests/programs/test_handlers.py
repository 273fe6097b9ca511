"""Seeds, substitution, and how handlers nest."""

import threading

import keras
import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl
from tests import statistics
from tests.differentiation import BACKEND, jit


def array(x):
    return ops.convert_to_numpy(x)


def program():
    w = bl.Normal(0.0, 1.0, sample_shape=2, name="w")
    return bl.Normal(w, 0.1, name="y")


def values_of(run):
    with bl.tape() as tape:
        run()
    return {name: array(variable) for name, variable in tape.items()}


# Substitution.


def test_a_substituted_variable_stays_latent_and_a_conditioned_one_does_not():
    with bl.tape() as tape, bl.substitute(w=[1.0, 2.0]), bl.condition(y=[3.0, 4.0]):
        program()
    np.testing.assert_array_equal(array(tape["w"]), [1.0, 2.0])
    assert (tape.observed, list(tape.latent())) == ({"y"}, ["w"])


@pytest.mark.parametrize("order", ["condition inside", "condition outside"])
def test_data_win_over_a_substitution(order):
    data, other = bl.condition(w=[1.0, 1.0]), bl.substitute(w=[2.0, 2.0])
    outer, inner = (other, data) if order == "condition inside" else (data, other)
    with bl.tape() as tape, outer, inner:
        program()
    np.testing.assert_array_equal(array(tape["w"]), [1.0, 1.0])
    assert tape.observed == {"w"}


def test_replay_leaves_variables_latent_and_data_alone():
    with bl.tape() as first, bl.condition(y=[3.0, 4.0]):
        program()
    with bl.tape() as second, bl.replay(first), bl.condition(y=[5.0, 6.0]):
        program()
    np.testing.assert_array_equal(array(first["w"]), array(second["w"]))
    np.testing.assert_array_equal(array(second["y"]), [5.0, 6.0])
    assert second.observed == {"y"}


# Seeds.


@pytest.mark.parametrize("key", [7, np.array(7), np.array([7, 8])], ids=str)
def test_a_seed_determines_all_draws(key):
    def seeded():
        with bl.seed(key):
            program()

    first, second = values_of(seeded), values_of(seeded)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first["w"], first["y"])


def test_a_seed_can_be_the_argument_of_a_compiled_function():
    def draw(key):
        with bl.seed(key):
            return ops.convert_to_tensor(program())

    compiled = jit(draw)
    for key in ([1, 2], [1, 3]):
        key = ops.convert_to_tensor(key, "int32")
        np.testing.assert_allclose(array(compiled(key)), array(draw(key)), rtol=1e-6)
    if BACKEND == "jax":
        import jax

        jax.jit(draw)(jax.random.key(0))


def test_draws_of_different_seeds_and_positions_are_independent():
    """Neighbouring keys: the product of standard normal draws has mean 0."""
    count = 4000

    def column(keys):
        draws = []
        for key in keys:
            with bl.seed(int(key)):
                draws.append([bl.Normal(0.0, 1.0), bl.Normal(0.0, 1.0)])
        return [ops.stack([ops.convert_to_tensor(x) for x in pair]) for pair in draws]

    with bl.seed(0):
        wide = array(ops.convert_to_tensor(bl.Normal(0.0, 1.0, sample_shape=count)))
        next_one = array(ops.convert_to_tensor(bl.Normal(0.0, 1.0, sample_shape=count)))
    with bl.seed(1):
        other = array(ops.convert_to_tensor(bl.Normal(0.0, 1.0, sample_shape=count)))
    products = np.stack([wide * next_one, wide * other, next_one * other], axis=1)
    statistics.assert_mean(products, np.zeros(3), detect=0.15)
    few = array(ops.stack(column(range(8))))
    assert len(np.unique(few)) == few.size


def test_a_seed_governs_layers_and_leaves_seeds_that_were_chosen():
    layer = bl.layers.DenseFlipout(2)
    x = np.ones((3, 4), "float32")
    layer(x)
    outputs = []
    for _ in range(2):
        with bl.seed(3):
            outputs.append(array(layer(x)))
    np.testing.assert_array_equal(*outputs)
    own = array(bl.Normal(0.0, 1.0, seed=5))
    with bl.seed(3):
        np.testing.assert_array_equal(array(bl.Normal(0.0, 1.0, seed=5)), own)
    with bl.seed(4), bl.seed(3):
        inner = array(layer(x))
    np.testing.assert_array_equal(inner, outputs[0])


def test_a_seed_does_not_make_all_draws_of_a_prediction_equal():
    model = keras.Sequential([keras.Input((2,)), bl.layers.DenseReparameterization(1)])
    with bl.seed(3):
        prediction = bl.predict(model, np.ones((1, 2)), num_samples=8, verbose=0)
    assert np.all(prediction.epistemic > 0.0)


@pytest.mark.parametrize("key", [True, 1.5])
def test_a_key_that_is_no_integer_is_refused(key):
    with pytest.raises(ValueError, match="should be an integer"):
        bl.seed(key)


# Threads.


def test_each_thread_has_its_own_seed_condition_and_role():
    layer = bl.layers.DenseReparameterization(1, use_bias=False, name="dense")
    layer.build((None, 1))
    barrier = threading.Barrier(4)
    results = {}

    def work(number):
        role = "prior" if number % 2 else "posterior"
        with bl.tape() as tape, bl.seed(number // 2), bl.role(role):
            barrier.wait()
            bl.Normal(0.0, 1.0, name="w")
            barrier.wait()
            layer(np.ones((1, 1), "float32"))
        results[number] = tape

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = (float(array(results[i]["w"])) for i in (0, 2))
    assert float(array(results[1]["w"])) == first != second
    for number, tape in results.items():
        stddev = float(array(tape["dense/kernel"].stddev()[0, 0]))
        assert (stddev == 1.0) == (number % 2 == 1)
