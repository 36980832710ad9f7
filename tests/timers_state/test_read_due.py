"""Timers that are read from the store many at a time fire in order, whoever asks for their keys."""

from __future__ import annotations

from collections import defaultdict

import pytest

from timers_state import Domain, MemoryStore, Overlay, RoundStore

STATE = 5
KEYS = [b"k%d" % number for number in range(5)]
TIMES = [0, 1, 1, 2, 3]
WHEN_OPENED = ["never", "at once", "after one", "when all are taken"]


def stored(budget=0) -> Overlay:
    """All keys have timers at all times, and nothing is in memory."""
    store = MemoryStore()
    overlay = Overlay(store, 0, rounds=True)
    for number, time in enumerate(TIMES):
        for key in KEYS:
            timers = overlay.scope(STATE, key).timers(Domain.EVENT)
            timers.set(time, b"t", b"%d" % number, payload=b"p%d" % number)
    overlay.prepare()
    overlay.commit()
    return Overlay(store, budget, rounds=True)


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


# --- timers that are in memory --------------------------------------------------------------------


def held(budget=1 << 20) -> Overlay:
    """All keys have timers at all times, in memory only, and nothing else."""
    overlay = Overlay(MemoryStore(), budget, rounds=True)
    for number, time in enumerate(TIMES):
        for key in KEYS:
            timers = overlay.scope(STATE, key).timers(Domain.EVENT)
            timers.set(time, b"t", b"%d" % number, payload=b"p%d" % number)
    end(overlay)
    return overlay


def end(overlay) -> None:
    overlay.prepare()
    overlay.commit()


def read_held(overlay, up_to, most, *, at_end=False):
    return overlay.read_held(STATE, Domain.EVENT, up_to, most, at_end=at_end)


def fire_held(overlay, up_to, most, opened) -> dict[bytes, list[tuple]]:
    fired = defaultdict(list)
    count = {"never": 99, "at once": 0, "after one": 1, "when all are taken": 99}[opened]
    while keys := read_held(overlay, up_to, most):
        for key, read, _ in keys:
            for timer in (read or ())[:count]:
                assert overlay.take(STATE, Domain.EVENT, key, timer)
                fired[key].append(timer[:5])
            if read is None or len(read) > count or opened == "when all are taken":
                timers = overlay.scope(STATE, key).timers(Domain.EVENT)
                fired[key] += map(tuple, timers.due(up_to))
    return fired


def everything_is_there(overlay) -> None:
    assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) * len(TIMES)
    for key in KEYS:
        due = overlay.scope(STATE, key).timers(Domain.EVENT).due(5)
        assert list(map(tuple, due)) == expected(5)


@pytest.mark.parametrize("most", [1, 2, 4, 9, 100])
@pytest.mark.parametrize("opened", WHEN_OPENED)
@pytest.mark.parametrize("up_to", [0, 2, 5])
def test_all_timers_of_each_key_in_memory_fire_in_order(most, opened, up_to) -> None:
    overlay = held()
    assert fire_held(overlay, up_to, most, opened) == {key: expected(up_to) for key in KEYS}
    later = [time for time in TIMES if time > up_to]
    for _ in range(2):
        assert overlay.first_time(STATE, Domain.EVENT) == min(later, default=None)
        assert overlay.count_timers(STATE, Domain.EVENT) == len(KEYS) * len(later)
        end(overlay)
    assert overlay._free == overlay._budget - sum(s.leased for s in overlay._scopes.values())


@pytest.mark.parametrize("opened", WHEN_OPENED)
@pytest.mark.parametrize("how", ["at once", "prepared", "written", "written and prepared"])
def test_a_round_that_is_undone_has_taken_nothing_from_memory(opened, how) -> None:
    overlay = held()
    assert fire_held(overlay, 5, 4, opened) == {key: expected(5) for key in KEYS}
    if "written" in how:
        overlay.flush()
        assert overlay.first_time(STATE, Domain.EVENT) is None
    if "prepared" in how:
        overlay.prepare()
    overlay.rollback()
    everything_is_there(overlay)


def test_what_was_taken_and_written_in_a_round_is_gone_after_it() -> None:
    overlay = held()
    fire_held(overlay, 5, 4, "never")
    overlay.flush()
    end(overlay)
    assert overlay.count_timers(STATE, Domain.EVENT) == 0
    assert all(overlay.scope(STATE, key).timers(Domain.EVENT).next_time() is None for key in KEYS)


@pytest.mark.parametrize("then", ["ends", "is undone", "is written"])
def test_a_key_of_which_one_timer_was_taken_keeps_the_others(then) -> None:
    overlay = held()
    first = read_held(overlay, 5, 1)[0]
    assert overlay.take(STATE, Domain.EVENT, first.key, first.timers[0])
    if then == "is undone":
        overlay.rollback()
        everything_is_there(overlay)
        return
    if then == "is written":
        overlay.flush()
    end(overlay)
    due = overlay.scope(STATE, first.key).timers(Domain.EVENT).due(5)
    assert list(map(tuple, due)) == expected(5)[1:]


@pytest.mark.parametrize("ends", [False, True])
def test_no_timer_of_a_key_is_given_again_that_was_taken(ends) -> None:
    overlay = Overlay(MemoryStore(), 1 << 20, rounds=True)
    for key in KEYS:
        for name in (b"a", b"b", b"c"):
            overlay.scope(STATE, key).timers(Domain.EVENT).set(1, name)
    end(overlay)
    first, _ = read_held(overlay, 5, 4)
    assert overlay.take(STATE, Domain.EVENT, first.key, first.timers[0])
    assert overlay.first_time(STATE, Domain.EVENT) == 1
    if ends:
        end(overlay)
    fired = fire_held(overlay, 5, 100, "never")
    names = {key: [timer[2] for timer in timers] for key, timers in fired.items()}
    assert names.pop(first.key) == [b"b", b"c"]
    assert names == {key: [b"a", b"b", b"c"] for key in KEYS if key != first.key}


def test_keys_that_were_given_and_did_not_fire_are_given_again() -> None:
    overlay = held()
    assert {due.key for due in read_held(overlay, 5, 100)} == set(KEYS)
    assert {due.key for due in read_held(overlay, 5, 100)} == set(KEYS)
    assert overlay.next_due(STATE, Domain.EVENT, 5) in KEYS


def test_who_kept_the_timers_of_a_key_finds_them_as_they_are() -> None:
    overlay = held()
    kept = overlay.scope(STATE, KEYS[2]).timers(Domain.EVENT)
    kept.set(4, b"more")
    end(overlay)
    (due,) = [due for due in read_held(overlay, 5, 100) if due.key == KEYS[2]]
    assert [timer[:3] for timer in due.timers[-1:]] == [(4, b"", b"more")]
    for timer in due.timers[:-1]:
        assert overlay.take(STATE, Domain.EVENT, KEYS[2], timer)
    kept.set(7, b"later")
    assert [timer[0] for timer in kept.due(9)] == [4, 7]


OTHER = {
    "a value": lambda scope: scope.value(b"v").set(b"x"),
    "a timer of another clock": lambda scope: scope.timers(Domain.PROCESSING).set(9, b"p"),
    "when a window is over": lambda scope: scope.timers(Domain.EXPIRY).set(9, b""),
}


@pytest.mark.parametrize("other", OTHER)
def test_a_key_with_anything_else_is_to_be_asked(other) -> None:
    overlay = held()
    OTHER[other](overlay.scope(STATE, KEYS[0]))
    end(overlay)
    for at_end in (False, True):
        given = {due.key: due.timers for due in read_held(overlay, 5, 100, at_end=at_end)}
        assert (given[KEYS[0]] is None) == (not at_end or other != "when a window is over")
        assert all(given[key] is not None for key in KEYS[1:])
    assert all(due.timers is None for due in read_held(overlay, 2, 100)), "some are not due"


def test_at_the_end_of_time_nobody_asks_when_windows_are_over() -> None:
    overlay = held()
    for key in KEYS:
        overlay.scope(STATE, key).timers(Domain.EXPIRY).set(9, b"")
    end(overlay)
    for due in read_held(overlay, 5, 100, at_end=True):
        for timer in due.timers:
            overlay.take(STATE, Domain.EVENT, due.key, timer)
    assert overlay.first_time(STATE, Domain.EXPIRY) is None
    overlay.rollback()
    assert overlay.count_timers(STATE, Domain.EXPIRY) == len(KEYS)
    everything_is_there(overlay)


def test_a_state_that_is_forgotten_while_its_timers_fire_is_gone_and_comes_back() -> None:
    overlay = held()
    first = read_held(overlay, 5, 1)[0]
    overlay.take(STATE, Domain.EVENT, first.key, first.timers[0])
    overlay.forget_all(STATE)
    assert overlay.first_time(STATE, Domain.EVENT) is None
    assert overlay.scope(STATE, first.key).timers(Domain.EVENT).next_time() is None
    overlay.rollback()
    everything_is_there(overlay)


# --- timers that are in both ----------------------------------------------------------------------


def test_what_memory_has_as_the_store_does_is_read_from_there(tmp_path) -> None:
    overlay = Overlay(RoundStore(tmp_path / "store"), 1 << 20, rounds=True)
    for key in KEYS:
        overlay.scope(STATE, key).timers(Domain.EVENT).set(1, b"t")
    overlay.scope(STATE, KEYS[0]).value(b"v").set(b"x")
    end(overlay)
    overlay.snapshot(tmp_path / "copy")
    given = {due.key: due.timers for due in overlay.read_due(STATE, Domain.EVENT, 5, 100)}
    assert given.pop(KEYS[0]) is None, "its value is worth more in memory"
    assert {key: [timer[0] for timer in timers] for key, timers in given.items()} == {
        key: [1] for key in KEYS[1:]
    }
    overlay.close()
