import threading

import numpy as np
import pytest
from keras import ops

import bayesian_layers as bl


def program():
    w = bl.Normal(0.0, 1.0, sample_shape=2, name="w")
    return bl.Normal(w, 0.1, name="y")


def array(x):
    return ops.convert_to_numpy(x)


def test_tape_records_by_name_in_order():
    with bl.tape() as tape:
        y = program()
    assert list(tape) == ["w", "y"]
    np.testing.assert_array_equal(array(tape["y"]), array(y))
    np.testing.assert_array_equal(array(y.distribution.loc), array(tape["w"]))
    assert isinstance(tape["w"], bl.RandomVariable)
    assert isinstance(tape["w"].distribution, bl.distributions.Normal)


def test_tape_records_what_is_observed_and_what_is_drawn_without_a_variable():
    with bl.tape() as tape:
        bl.Normal(0.0, 1.0, value=3.0, name="x")
        drawn = bl.draw(bl.distributions.Normal(0.0, 1.0), name="layer/kernel")
        bl.Normal(0.0, 1.0)
    assert list(tape) == ["x", "layer/kernel"]
    assert float(tape["x"]) == 3.0
    assert float(tape["layer/kernel"]) == float(drawn)


def test_a_name_used_twice_on_a_tape_is_an_error():
    with pytest.raises(ValueError, match="'w' is used twice"), bl.tape():
        program()
        program()


def test_two_tapes_nest():
    with bl.tape() as outer:
        with bl.tape() as inner:
            program()
        bl.Normal(0.0, 1.0, name="z")
    assert (list(inner), list(outer)) == (["w", "y"], ["w", "y", "z"])


@pytest.mark.parametrize("order", ["tape outside", "tape inside"])
def test_condition_sets_values_and_the_tape_sees_them(order):
    if order == "tape outside":
        with bl.tape() as tape, bl.condition(w=[1.0, 2.0]):
            program()
    else:
        with bl.condition(w=[1.0, 2.0]), bl.tape() as tape:
            program()
    np.testing.assert_array_equal(array(tape["w"]), [1.0, 2.0])
    np.testing.assert_array_equal(array(tape["y"].distribution.loc), [1.0, 2.0])


def test_condition_takes_names_with_slashes_and_the_innermost_wins():
    with bl.condition({"a/b": 1.0}), bl.condition({"a/b": 2.0}):
        inner = bl.Normal(0.0, 1.0, name="a/b")
    assert float(inner) == 1.0 or float(inner) == 2.0
    with bl.condition({"a/b": 1.0}):
        assert float(bl.Normal(0.0, 1.0, name="a/b")) == 1.0


def test_condition_of_wrong_shape_is_an_error_with_both_shapes():
    with (
        pytest.raises(ValueError, match=r"shape \(2,\).*shape \(3,\)"),
        bl.condition(w=np.zeros(3)),
    ):
        program()


def test_replay_repeats_a_tape():
    with bl.tape() as first:
        program()
    with bl.replay(first), bl.tape() as second:
        program()
        bl.Normal(0.0, 1.0, name="new")
    np.testing.assert_array_equal(array(first["y"]), array(second["y"]))
    assert list(second) == ["w", "y", "new"]


def test_block_hides_all_or_the_named():
    with bl.tape() as tape, bl.block():
        program()
    assert list(tape) == []
    with bl.tape() as tape, bl.block(["w"]):
        program()
    assert list(tape) == ["y"]
    with bl.tape() as tape, bl.block(lambda name: name != "w"):
        program()
    assert list(tape) == ["w"]


def test_what_is_blocked_is_not_conditioned_from_outside():
    with bl.condition(w=[5.0, 5.0]), bl.block():
        program_value = bl.Normal(0.0, 1.0, sample_shape=2, name="w", seed=1)
    np.testing.assert_array_equal(
        array(program_value),
        array(bl.Normal(0.0, 1.0, sample_shape=2, seed=1)),
    )


def test_a_tracer_may_replace_the_result_and_call_on():
    calls = []

    def outer(f, *args, **kwargs):
        calls.append("outer")
        return bl.traceable(f)(*args, **kwargs)

    def inner(f, *args, **kwargs):
        calls.append("inner")
        return 10.0 + bl.traceable(f)(*args, **kwargs)

    with bl.trace(outer), bl.trace(inner):
        x = bl.Deterministic(1.0)
    assert (calls, float(x)) == (["inner", "outer"], 11.0)


def test_any_function_can_be_traceable():
    @bl.traceable
    def shift(x, by=1.0):
        return x + by

    def negate(f, *args, **kwargs):
        return -bl.traceable(f)(*args, **kwargs)

    with bl.trace(negate), bl.tape():
        assert shift(1.0, by=2.0) == -3.0
    assert shift(1.0) == 2.0


def test_get_next_tracer_gives_the_innermost_and_hides_it():
    def tracer(f, *args, **kwargs):
        return f(*args, **kwargs)

    with bl.trace(tracer):
        with bl.get_next_tracer() as first:
            with bl.get_next_tracer() as second:
                assert (first, second) == (tracer, None)
        with bl.get_next_tracer() as again:
            assert again is tracer


def test_an_exception_leaves_no_handler_behind():
    for handler in (bl.tape(), bl.condition(w=1.0), bl.block(), bl.replay({})):
        with pytest.raises(RuntimeError), handler:
            raise RuntimeError
    with bl.get_next_tracer() as tracer:
        assert tracer is None


def test_an_exception_inside_a_program_leaves_the_outer_handler_in_force():
    with bl.tape() as tape:
        with pytest.raises(ValueError), bl.condition(w=np.zeros(7)):
            program()
        bl.Normal(0.0, 1.0, name="after")
    assert list(tape) == ["after"]


def test_each_thread_has_its_own_handlers():
    ready, done = threading.Event(), threading.Event()
    names = []

    def other():
        ready.wait()
        with bl.tape() as tape:
            bl.Normal(0.0, 1.0, name="theirs")
        names.extend(tape)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with bl.tape() as tape:
        ready.set()
        done.wait()
        bl.Normal(0.0, 1.0, name="ours")
    thread.join()
    assert (list(tape), names) == (["ours"], ["theirs"])


def test_threads_that_read_a_variable_first_get_one_value():
    for _ in range(20):
        w = bl.Normal(0.0, 1.0)
        barrier = threading.Barrier(4)
        values = []

        def read(w=w, barrier=barrier, values=values):
            barrier.wait()
            values.append(float(w))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(values)) == 1
