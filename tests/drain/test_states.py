from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.drain.caused import caused_by_drain, causing
from sparkdrain.drain.states import (
    DataAfterDrain,
    DrainMessage,
    DrainStates,
    UnexpectedProducer,
)

RUN = "job/1"


def states(producers=None, heard=()):
    return DrainStates(RUN, producers or {4: 2, 5: 2}, frozenset(heard))


def test_an_edge_is_drained_when_all_of_its_producers_have_told_so():
    edges = states()
    edges.update(DrainMessage(RUN, 0, (4, 5)))
    edges.update(DrainMessage(RUN, 1, (4,)))
    assert edges.is_drained([4])
    assert not edges.is_drained([5])
    assert not edges.is_drained([4, 5])
    assert edges.count([4, 5]) == (4, 3)


def test_what_was_heard_in_earlier_rounds_counts():
    edges = states(heard=[(4, 0)])
    edges.update(DrainMessage(RUN, 1, (4,)))
    assert edges.is_drained([4])


def test_a_producer_that_tells_twice_counts_once():
    edges = states(heard=[(4, 0)])
    edges.update(DrainMessage(RUN, 0, (4,)))
    edges.update(DrainMessage(RUN, 0, (4,)))
    assert not edges.is_drained([4])


def test_a_stage_without_inputs_has_nothing_to_wait_for():
    assert states().is_drained([])


def test_a_message_of_another_run_is_dropped_and_counted():
    edges = states()
    edges.update(DrainMessage("job/0", 0, (4,)))
    edges.update(DrainMessage("job/0", 9, (99,)))
    assert edges.count([4]) == (2, 0)
    assert edges.strangers == 2


@pytest.mark.parametrize("message", [DrainMessage(RUN, 2, (4,)), DrainMessage(RUN, 0, (6,))])
def test_a_message_of_somebody_unknown_is_an_error(message):
    with pytest.raises(UnexpectedProducer, match=f"edge {message.edges[0]}"):
        states().update(message)


def test_elements_that_come_in_a_round_after_the_drain_message_are_an_error():
    edges = states(heard=[(4, 0)])
    edges.data(4, 1)
    edges.data(5, 0)
    with pytest.raises(DataAfterDrain, match="slot 0 sent elements on edge 4"):
        edges.data(4, 0)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([4, 5])), max_size=12))
def test_in_whatever_order_and_however_often_messages_come_the_same_is_known(told):
    producers = {4: 3, 5: 3}
    forth, back, again = states(producers), states(producers), states(producers, {*told_of(told)})
    for producer, edge in told:
        forth.update(DrainMessage(RUN, producer, (edge,)))
    for producer, edge in reversed(told * 2):
        back.update(DrainMessage(RUN, producer, (edge,)))
    for edge in producers:
        assert forth.count([edge]) == back.count([edge]) == again.count([edge])
        assert forth.is_drained([edge]) == (len({p for p, e in told if e == edge}) == 3)


def told_of(told):
    return ((edge, producer) for producer, edge in told)


def test_only_what_runs_meanwhile_is_caused_by_drain():
    assert not caused_by_drain()
    with causing():
        assert caused_by_drain()
        with causing():
            assert caused_by_drain()
        assert caused_by_drain()
    assert not caused_by_drain()


def test_what_runs_in_other_threads_is_not_caused_by_drain():
    seen = []
    with causing():
        thread = threading.Thread(target=lambda: seen.append(caused_by_drain()))
        thread.start()
        thread.join()
    assert seen == [False]
