"""Timers that are read from the store many at a time fire in order, whoever asks for their keys."""

from __future__ import annotations

from collections import defaultdict

import pytest

from timers_state import Domain, MemoryStore, Overlay

STATE = 5
KEYS = [b"k%d" % number for number in range(5)]
TIMES = [0, 1, 1, 2, 3]
WHEN_OPENED = ["never", "at once", "after one", "when all are taken"]


def stored(budget=0) -> Overlay:
    """All keys have timers at all times, and nothing is in memory."""
    store = MemoryStore()
    overlay = Overlay(store, 0)
    for number, time in enumerate(TIMES):
        for key in KEYS:
            timers = overlay.scope(STATE, key).timers(Domain.EVENT)
            timers.set(time, b"t", b"%d" % number, payload=b"p%d" % number)
    overlay.prepare()
    overlay.commit()
    return Overlay(store, budget)


def expected(up_to: int) -> list[tuple]:
    return [
        (time, b"", b"t", b"%d" % number, b"p%d" % number)
        for number, time in enumerate(TIMES)
        if time <= up_to
    ]


def fire(overlay: Overlay, up_to: int, most: int, opened: str) -> dict[bytes, list[tuple]]:
    fired = defaultdict(list)
    while keys := overlay.read_due(STATE, Domain.EVENT, up_to, most):
        for key, read, horizon in keys:
            count = {"never": 99, "at once": 0, "after one": 1, "when all are taken": 99}[opened]
            for timer in (read or ())[:count]:
                overlay.take(STATE, Domain.EVENT, key, timer)
                fired[key].append(timer[:5])
            left = (read or ())[count:]
            if read is None or left or opened == "when all are taken":
                timers = overlay.scope(STATE, key).timers(Domain.EVENT)
                if read is not None and not left:
                    timers.none_until(horizon)
                last = max([horizon, *(timer[0] for timer in left)])
                fired[key] += map(tuple, timers.due(last))
        overlay.read_on(STATE, Domain.EVENT)
    return fired


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, 7, 9, 11, 24, 100])
@pytest.mark.parametrize("opened", WHEN_OPENED)
@pytest.mark.parametrize("budget", [0, 3000, 1 << 20])
def test_all_timers_of_each_key_fire_in_order(most, opened, budget) -> None:
    for up_to in (0, 1, 2, 5):
        overlay = stored(budget)
        fired = fire(overlay, up_to, most, opened)
        assert fired == {key: expected(up_to) for key in KEYS}
        assert overlay.next_due(STATE, Domain.EVENT, up_to) is None
        assert overlay.first_time(STATE, Domain.EVENT) == min(
            (time for time in TIMES if time > up_to), default=None
        )
        overlay.prepare()
        overlay.commit()
        assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) * sum(
            time > up_to for time in TIMES
        )


@pytest.mark.parametrize("opened", WHEN_OPENED)
def test_a_round_that_is_undone_has_taken_nothing(opened) -> None:
    overlay = stored(budget=1 << 20)
    for _ in range(3):
        assert fire(overlay, 1, 4, opened) == {key: expected(1) for key in KEYS}
        overlay.rollback()
    assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) * len(TIMES)


def test_what_is_set_for_a_time_that_was_passed_is_read() -> None:
    overlay = stored()
    fire(overlay, 2, 3, "never")
    overlay.scope(STATE, KEYS[3]).timers(Domain.EVENT).set(1, b"late")
    overlay.flush()
    (due,) = overlay.read_due(STATE, Domain.EVENT, 2, 3)
    assert due.key == KEYS[3]
    assert [timer[:3] for timer in due.timers] == [(1, b"", b"late")]


def test_what_was_not_said_to_be_done_is_read_again_without_what_was_taken() -> None:
    overlay = stored(budget=1 << 20)
    first = overlay.read_due(STATE, Domain.EVENT, 5, 100)[0]
    overlay.take(STATE, Domain.EVENT, first.key, first.timers[0])
    again = overlay.read_due(STATE, Domain.EVENT, 5, 100)
    assert sum(len(due.timers) for due in again) == len(KEYS) * len(TIMES) - 1
    assert overlay.first_time(STATE, Domain.EVENT) == 0


@pytest.mark.parametrize("flushes", [False, True])
def test_all_keys_of_a_state_are_forgotten_at_once_and_can_begin_anew(flushes) -> None:
    overlay = stored(budget=1 << 20)
    overlay.scope(STATE + 1, KEYS[0]).value(b"v").set(b"other")
    fire(overlay, 0, 4, "at once")
    overlay.forget_all(STATE)
    assert overlay.first_time(STATE, Domain.EVENT) is None
    assert overlay.count_timers(STATE, Domain.EVENT) == 0
    assert not overlay.read_due(STATE, Domain.EVENT, 5, 100)
    overlay.scope(STATE, KEYS[1]).timers(Domain.EVENT).set(9, b"new")
    if flushes:
        overlay.flush()
    overlay.prepare()
    overlay.commit()
    assert overlay.first_time(STATE, Domain.EVENT) == 9
    assert overlay.count_timers(STATE, Domain.EVENT) == 1
    assert overlay.scope(STATE + 1, KEYS[0]).value(b"v").get() == b"other"


def test_a_state_that_was_forgotten_is_there_again_if_the_round_is_undone() -> None:
    overlay = stored(budget=1 << 20)
    overlay.forget_all(STATE)
    overlay.rollback()
    assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) * len(TIMES)
