"""What a grouping promises whatever the rounds are: undone, cut short, in little memory."""

from __future__ import annotations

from collections import Counter

import pytest
from apache_beam import coders
from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import Windowing
from hypothesis import given, settings
from hypothesis import strategies as st
from round_driver import SECOND, Firings, Rounds
from windowings import combiners, frontiers, modes, rounds, triggers, window_fns

from sparkdrain.panes.times import END
from sparkdrain.panes.window_ends import EndingWindow
from tests.support.counting_store import CountingStore
from timers_state.store.round_store import RoundStore

lateness = st.sampled_from([0, 3, 12, 10_000])
windowings = st.builds(Windowing, window_fns, triggers, modes, combiners, lateness)


def all_panes(driven, data, **options):
    panes = [driven.round(arrived, frontier, **options) for arrived, frontier in frontiers(data)]
    return [sorted(of_round) for of_round in [*panes, driven.round(frontier=END)]]


@settings(max_examples=50, deadline=None)
@given(windowings, rounds, st.data())
def test_a_round_that_was_taken_back_never_was(tmp_path_factory, windowing, data, choice):
    scratch = tmp_path_factory.getbasetemp()
    expected = all_panes(Rounds(windowing, scratch), data)
    driven = Rounds(windowing, scratch)
    panes = []
    for arrived, frontier in [*frontiers(data), ([], END)]:
        blocks = driven.blocks(arrived) if arrived else []
        before = driven.frontier
        while choice.draw(st.booleans()):
            driven.run(blocks, frontier)
            if choice.draw(st.booleans()):
                driven.overlay.prepare()
            driven.rollback()
            driven.frontier = before
        panes.append(sorted(driven.run(blocks, frontier)))
        driven.commit()
    assert panes == expected


@settings(max_examples=50, deadline=None)
@given(windowings, rounds)
def test_panes_are_the_same_when_nothing_stays_in_memory(tmp_path_factory, windowing, data):
    scratch = tmp_path_factory.mktemp("small")
    expected = all_panes(Rounds(windowing, scratch), data)
    store = RoundStore(scratch / "store")
    small = Rounds(
        windowing, scratch, store=store, budget_bytes=2000, memory_bytes=50, block_bytes=1
    )
    assert all_panes(small, data) == expected
    small.overlay.close()


@settings(max_examples=50, deadline=None)
@given(windowings, rounds)
def test_a_new_process_goes_on_where_the_last_one_stopped(tmp_path_factory, windowing, data):
    scratch = tmp_path_factory.getbasetemp()
    expected = all_panes(Rounds(windowing, scratch), data)
    driven = Rounds(windowing, scratch)
    panes = []
    for arrived, frontier in [*frontiers(data), ([], END)]:
        driven.reopen()
        panes.append(sorted(driven.round(arrived, frontier)))
    assert panes == expected


@settings(max_examples=50, deadline=None)
@given(windowings, rounds)
def test_what_is_due_comes_later_if_there_is_no_time_for_it(tmp_path_factory, windowing, data):
    scratch = tmp_path_factory.getbasetemp()
    at_once, little = Rounds(windowing, scratch), Rounds(windowing, scratch)
    for arrived, frontier in [*frontiers(data), ([], END)]:
        expected = at_once.round(arrived, frontier)
        panes = little.round(arrived, frontier, firings=1)
        while little.grouping.has_due(frontier, 0):
            panes += little.round(frontier=frontier, firings=1)
        assert sorted(panes) == sorted(expected)


@settings(max_examples=50, deadline=None)
@given(windowings, rounds)
def test_no_pane_is_behind_the_output_frontier_unless_its_elements_were_late(
    tmp_path_factory, windowing, data
):
    driven = Rounds(windowing, tmp_path_factory.getbasetemp())
    output = None
    for arrived, frontier in [*frontiers(data), ([], END)]:
        in_time = all(seconds * SECOND >= driven.frontier for _, _, seconds in arrived)
        if not in_time:
            return
        for pane in driven.round(arrived, frontier):
            assert output is None or pane[-1] >= output
        output = max(output or 0, min(frontier, driven.grouping.hold()))


@settings(max_examples=50, deadline=None)
@given(windowings, rounds)
def test_every_value_comes_out_once_or_is_counted_as_dropped(tmp_path_factory, windowing, data):
    windowing.accumulation_mode = trigger.AccumulationMode.DISCARDING
    driven = Rounds(windowing, tmp_path_factory.getbasetemp())
    panes = all_panes(driven, data)
    out = Counter(value for of_round in panes for pane in of_round for value in pane[4])
    given_in = Counter()
    for arrived, _ in data:
        for _, value, seconds in arrived:
            given_in[value] += len(driven.context(value, seconds).windows)
    assert out <= given_in
    if not loses(windowing):
        assert (given_in - out).total() == driven.grouping.dropped
    assert driven.grouping.hold() == END
    assert driven.rows() == []


def loses(windowing):
    """Whether what has come may go unseen: sessions that meet one whose trigger is finished."""
    return windowing.windowfn.is_merging() and not isinstance(
        windowing.triggerfn, (trigger.DefaultTrigger, trigger.Repeatedly, trigger.Always)
    )


@pytest.mark.parametrize("always", [True, False])
def test_the_last_pane_of_a_window_comes_if_something_came_or_always(always, tmp_path):
    for late in (trigger.AfterCount(2), None):
        fire = trigger.AfterWatermark(late=late) if late else trigger.DefaultTrigger()
        windowing = Windowing(
            window.FixedWindows(10), fire, trigger.AccumulationMode.DISCARDING, None, 20
        )
        driven = Rounds(windowing, tmp_path, closes_always=always)
        assert len(driven.round([("k", 1, 1)], 10 * SECOND)) == 1
        assert driven.round(frontier=29 * SECOND) == []
        last = driven.round(frontier=30 * SECOND)
        assert [pane[4] for pane in last] == ([[]] if always else [])


def test_a_last_pane_that_there_was_no_time_for_holds_the_output_back(tmp_path):
    mode = trigger.AccumulationMode.DISCARDING
    windowing = Windowing(window.FixedWindows(10), trigger.DefaultTrigger(), mode, None, 20)
    driven = Rounds(windowing, tmp_path, closes_always=True)
    driven.round([("k", 1, 1)], 10 * SECOND)
    assert driven.round(frontier=40 * SECOND, firings=0) == []
    assert driven.grouping.hold() == 30 * SECOND - 1000
    assert len(driven.round(frontier=40 * SECOND)) == 1
    assert driven.grouping.hold() == END


def counted_by_tens(tmp_path, **options):
    return Rounds(Windowing(window.FixedWindows(10)), tmp_path, **options)


def keys_and_ends(panes):
    return [(pane[0], pane[1] // SECOND) for pane in panes]


def test_a_window_that_comes_and_ends_in_one_round_leaves_nothing_in_state(tmp_path):
    driven = counted_by_tens(tmp_path)
    elements = [("a", 1, 1), ("b", 2, 12), ("a", 3, 2), ("c", 4, 25)]
    assert sorted(keys_and_ends(driven.round(elements, frontier=20 * SECOND))) == [
        ("a", 10),
        ("b", 20),
    ]
    in_state = driven.rows()
    alone = counted_by_tens(tmp_path)
    alone.round([("c", 4, 25)], frontier=20 * SECOND)
    assert in_state == alone.rows()


def test_what_ends_in_its_round_without_time_for_it_fires_later_and_in_order(tmp_path):
    driven = counted_by_tens(tmp_path)
    driven.round([("a", 0, 11)], frontier=0)
    elements = [(key, 1, seconds) for seconds in (1, 11, 21) for key in "abc"]
    fired = [keys_and_ends(driven.round(elements, frontier=30 * SECOND, firings=2))]
    while driven.grouping.has_due(driven.frontier, 0):
        fired.append(keys_and_ends(driven.round(firings=2)))
    assert len(fired) > 2
    assert [end for panes in fired for _, end in panes] == [10] * 3 + [20] * 3 + [30] * 3


def test_panes_of_a_window_leave_together_and_windows_in_order(tmp_path):
    driven = counted_by_tens(tmp_path)
    # Many keys, in all key groups, and each one in the last window and in one before it.
    for key in range(300):
        driven.round([(str(key), 1, second) for second in (1 + 10 * (key % 2), 21)], frontier=0)
    driven.frontier = 30 * SECOND
    batches = list(driven.grouping.advance(driven.frontier, 0, Firings(1 << 30)))
    assert [context.timestamp.seconds() for context, _ in batches] == [9, 19, 29]
    assert [len(pairs) for _, pairs in batches] == [150, 150, 300]


def test_panes_leave_before_they_fill_memory(tmp_path):
    driven = counted_by_tens(tmp_path, value_coder=coders.BytesCoder())
    driven.round([(str(key), b"v" * (1 << 20), 1) for key in range(16)], frontier=0)
    batches = list(driven.grouping.advance(10 * SECOND, 0, Firings(1 << 30)))
    assert [len(pairs) for _, pairs in batches] == [4] * 4


def test_a_window_with_many_late_panes_remembers_few():
    ending = EndingWindow(b"", window.IntervalWindow(0, 10), 10_000, at_expiry=False)
    for index in range(1, 1000):
        shared = ending.context(index, on_time=False, last=False)
        assert ending.context(index, on_time=False, last=False) is shared
        assert (shared.pane_info.index, shared.timestamp.micros) == (index, 9_999_000)
    assert ending.context.cache_info().currsize < 100


def test_a_window_in_state_is_told_from_new_ones_after_a_round_was_taken_back(tmp_path):
    driven = counted_by_tens(tmp_path)
    driven.round([("a", 1, 1)], frontier=0)
    for _ in range(2):
        driven.frontier = 0
        panes = driven.run(driven.blocks([("a", 2, 2)]), frontier=10 * SECOND)
        assert [pane[4] for pane in panes] == [[1, 2]]
        driven.rollback()


def test_timers_of_a_key_are_read_once_though_many_are_due(tmp_path):
    windowing = Windowing(
        window.FixedWindows(1),
        trigger.AfterWatermark(late=trigger.AfterCount(1)),
        trigger.AccumulationMode.DISCARDING,
    )
    store = CountingStore()
    driven = Rounds(windowing, tmp_path, store=store, budget_bytes=100_000)
    keys, windows = [f"key {number}" for number in range(20)], range(100)
    driven.round((key, 1, second) for second in windows for key in keys)
    driven.overlay.flush()
    store.reset()
    panes = driven.round(frontier=END)
    assert len(panes) == len(keys) * len(windows)
    for key in keys:
        ends = [end for of_key, end, *_ in panes if of_key == key]
        assert ends == sorted(ends)
    assert store.walked < 20 * len(panes)
