"""Timers of a key fire in strict time order, each once, wherever they are kept."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import Domain, MemoryStore, Overlay, RoundStore
from timers_state.errors import StaleScope

END = 2**63 - 1


@pytest.fixture
def overlay():
    return Overlay(MemoryStore(), 1 << 20)


def timers_of(overlay, key=b"k", domain=Domain.EVENT):
    return overlay.scope(1, key).timers(domain)


def test_the_last_setting_of_a_timer_counts(overlay):
    timers = timers_of(overlay)
    timers.set(5, b"f", payload=b"early")
    timers.set(9, b"f", payload=b"late")
    assert timers.pop_due(8) is None
    assert timers.pop_due(9) == (9, b"", b"f", b"", b"late")
    assert timers.pop_due(END) is None


@pytest.mark.parametrize("flushed", [False, True])
def test_a_timer_that_sets_itself_again_fires_until_the_limit(overlay, flushed):
    timers = timers_of(overlay)
    timers.set(0, b"f")
    fired = []
    for timer in timers.due(10):
        fired.append(timer.time)
        timers.set(timer.time + 3, b"f")
        if flushed:
            overlay.flush()
    assert fired == [0, 3, 6, 9]
    assert timers.next_time() == 12


@pytest.mark.parametrize("flushed", [False, True])
def test_a_timer_set_for_the_past_fires_next(overlay, flushed):
    timers = timers_of(overlay)
    for time in (10, 20, 30):
        timers.set(time, b"f", b"%d" % time)
    if flushed:
        overlay.flush()
    assert timers.pop_due(END).time == 10
    timers.set(5, b"g")
    if flushed:
        overlay.flush()
    assert [timer.time for timer in timers.due(END)] == [5, 20, 30]


def test_keys_domains_and_states_do_not_see_each_other(overlay):
    timers_of(overlay).set(1, b"f")
    timers_of(overlay, domain=Domain.PROCESSING).set(2, b"f")
    timers_of(overlay, key=b"l").set(3, b"f")
    overlay.scope(2, b"k").timers(Domain.EVENT).set(4, b"f")
    overlay.flush()
    assert [timer.time for timer in timers_of(overlay).due(END)] == [1]
    assert [timer.time for timer in timers_of(overlay, domain=Domain.PROCESSING).due(END)] == [2]
    assert [timer.time for timer in timers_of(overlay, key=b"l").due(END)] == [3]
    assert [t.time for t in overlay.scope(2, b"k").timers(Domain.EVENT).due(END)] == [4]


@pytest.mark.parametrize("time", [-(2**63) - 1, 2**63])
def test_a_time_of_more_than_64_bits_is_refused_at_once(overlay, time):
    timers = timers_of(overlay)
    with pytest.raises(ValueError, match="64-bit"):
        timers.set(time, b"f")
    assert timers.next_time() is None


def test_setting_a_timer_over_and_over_takes_no_memory(overlay):
    timers = timers_of(overlay)
    timers.set(0, b"f", payload=b"0")
    timers.next_time()
    before = overlay.scope(1, b"k").room
    tracemalloc.start()
    for time in range(20000):
        timers.set(time, b"f", payload=b"1")
        timers.next_time()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert overlay.scope(1, b"k").room == before


def test_a_forgotten_window_takes_its_timers_along(overlay):
    timers = timers_of(overlay)
    for window in (b"w", b"x"):
        timers.set(1, b"f", b"stored", window)
    overlay.flush()
    for window in (b"w", b"x"):
        timers.set(2, b"f", b"held", window)
    overlay.scope(1, b"k").forget_window(b"w")
    assert [(timer.time, timer.window) for timer in timers.due(END)] == [(1, b"x"), (2, b"x")]


def test_timers_of_a_forgotten_key_are_gone_and_its_object_is_stale(overlay):
    timers = timers_of(overlay)
    timers.set(1, b"f")
    overlay.flush()
    timers.set(2, b"g")
    overlay.forget(1, b"k")
    with pytest.raises(StaleScope):
        timers.set(3, b"f")
    assert timers_of(overlay).next_time() is None
    overlay.flush()
    assert list(overlay.store.iterate_rows(b"\x01", b"\xff")) == []


def test_many_timers_of_one_key_fire_in_bounded_memory(tmp_path):
    count = 20_000
    overlay = Overlay(RoundStore(tmp_path / "s"), 200_000)
    timers = timers_of(overlay)
    tracemalloc.start()
    for number in range(count):
        timers.set(number * 7919 % count, b"f", b"%d" % number)
    last = -1
    for timer in timers.due(END):
        assert timer.time == last + 1
        last = timer.time
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert last == count - 1
    assert peak < 3_000_000
    overlay.close()


sets = st.tuples(st.integers(-5, 5), st.sampled_from([b"f", b"g", b"h"]))


@settings(deadline=None)
@given(st.lists(st.one_of(sets, st.none(), st.integers(-5, 5)), max_size=40))
def test_times_never_go_back_while_nothing_is_set_for_the_past(steps):
    """Steps: set a timer not before the clock, write out, or let the clock advance."""
    overlay = Overlay(MemoryStore(), 1 << 20)
    timers = timers_of(overlay)
    clock = -5
    fired = []
    for step in steps:
        if step is None:
            overlay.flush()
        elif isinstance(step, tuple):
            timers.set(max(step[0], clock), step[1])
        else:
            clock = max(clock, step)
            fired += [timer.time for timer in timers.due(clock)]
            assert timers.next_time() is None or timers.next_time() > clock
    assert fired == sorted(fired)
