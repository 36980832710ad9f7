from __future__ import annotations

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.drain.monitor import LONGEST_PAUSE, DrainMonitor, State, pause_after
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.records import NAMESPACE, write
from sparkdrain.errors import BadOption

MINE, OTHER = DrainNotification.create("mine", 5), DrainNotification.create("other", 1)


class Script:
    """Stands for time and threads: each wait runs the next step; after the last one, stop."""

    def __init__(self, *steps) -> None:
        self.steps = list(steps)
        self.waits = []
        self.watches = []
        self.stopped = False

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        if self.stopped or not self.steps:
            return True
        self.steps.pop(0)()
        return self.stopped

    def set(self) -> None:
        self.stopped = True

    def start_thread(self, watch):
        self.watches.append(watch)
        return lambda: None

    def run(self) -> None:
        (watch,) = self.watches
        watch()


class Flaky(MemoryMetadataStore):
    """A store that does not answer while ``down``."""

    down = False

    def all(self, namespace, on_corrupt=None, without=frozenset(), prefix=""):
        if self.down:
            message = "no answer"
            raise StoreDown(message)
        found = super().all(namespace, on_corrupt, without, prefix)
        self.given = list(found)
        return found


@pytest.fixture
def store():
    return Flaky()


def started(store, script, interval=2.0):
    monitor, heard = DrainMonitor(store, "mine", interval, script, script.start_thread), []
    assert monitor.on_drain(heard.append)
    monitor.start()
    return monitor, heard


def nothing() -> None:
    """A step in which nothing happens."""


@pytest.mark.parametrize("interval", [0, -1.0, float("nan")])
def test_an_interval_of_no_use_is_refused(store, interval):
    with pytest.raises(BadOption, match="--drain_poll_ms"):
        DrainMonitor(store, "mine", interval)


@pytest.mark.parametrize("run_id", ["", "  "])
def test_a_blank_run_id_is_refused(store, run_id):
    with pytest.raises(BadOption, match="blank"):
        DrainMonitor(store, run_id, 1.0)


def test_no_store_is_refused():
    with pytest.raises(ValueError, match="needs a metadata store"):
        DrainMonitor(None, "mine", 1.0)


def test_it_does_not_start_without_somebody_to_call(store):
    monitor = DrainMonitor(store, "mine", 1.0)
    with pytest.raises(RuntimeError, match="nothing to call"):
        monitor.start()
    assert monitor.state is State.NEW


def test_the_first_callback_is_taken_and_a_second_one_refused(store):
    script, first, second = Script(), [], []
    monitor = DrainMonitor(store, "mine", 1.0, script, script.start_thread)
    assert monitor.on_drain(first.append)
    assert not monitor.on_drain(second.append)
    write(store, MINE)
    monitor.start()
    assert (first, second) == ([MINE], [])


def test_it_starts_but_once_and_not_after_its_end(store):
    monitor, _ = started(store, Script())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="started or stopped"):
            monitor.start()
        monitor.stop()
    assert not monitor.on_drain(print)


def test_a_notification_from_before_the_start_is_heard_at_once_and_no_thread_is_started(store):
    write(store, MINE)
    script = Script()
    monitor, heard = started(store, script)
    assert heard == [MINE]
    assert monitor.state is State.STOPPED
    assert script.watches == []


def test_one_that_is_written_later_is_heard_once_within_an_interval(store):
    script = Script(nothing, nothing, lambda: write(store, MINE), nothing)
    monitor, heard = started(store, script)
    assert heard == []
    script.run()
    assert heard == [MINE]
    assert script.waits == [2.0] * 3
    assert monitor.state is State.STOPPED


def test_those_of_other_runs_are_left_alone(store):
    write(store, OTHER)
    script = Script(nothing, nothing)
    monitor, heard = started(store, script)
    script.run()
    assert heard == []
    assert monitor.state is State.WATCHING
    assert set(store.all(NAMESPACE)) == {str(OTHER.id)}


def test_stopping_ends_the_watch_and_may_be_repeated(store):
    script = Script()
    monitor, heard = started(store, script)
    monitor.stop()
    monitor.stop()
    write(store, MINE)
    script.run()
    assert monitor.look()
    assert heard == []
    assert monitor.state is State.STOPPED


def test_a_stop_that_comes_during_a_look_keeps_the_callback_from_being_called(store, monkeypatch):
    monitor, heard = started(store, Script())
    write(store, MINE)
    look = store.all

    def stopped_meanwhile(*args):
        found = look(*args)
        monitor.stop()
        return found

    monkeypatch.setattr(store, "all", stopped_meanwhile)
    monitor.look()
    assert heard == []


def test_one_that_was_never_started_can_be_stopped(store):
    monitor = DrainMonitor(store, "mine", 1.0)
    monitor.stop()
    assert monitor.state is State.STOPPED


def test_an_unreadable_record_is_logged_once_counted_and_hides_no_other(store, caplog):
    def junk() -> None:
        store.put(NAMESPACE, "junk", b"\xff")

    script = Script(junk, nothing, nothing, lambda: write(store, MINE))
    with caplog.at_level(logging.DEBUG):
        monitor, heard = started(store, script)
        script.run()
    assert heard == [MINE]
    assert monitor.unreadable == 1
    assert len([r for r in caplog.records if "is ignored" in r.message]) == 1


def test_a_record_of_a_later_release_is_no_more_than_unreadable(store):
    store.put(NAMESPACE, "later", b'{"version": 2, "run_id": "mine"}')
    monitor, heard = started(store, Script())
    assert heard == []
    assert monitor.unreadable == 1


def test_a_store_that_does_not_answer_is_asked_more_and_more_seldom_until_it_does(store, caplog):
    def down() -> None:
        store.down = True

    def back() -> None:
        store.down = False
        write(store, MINE)

    script = Script(down, *[nothing] * 6, back)
    with caplog.at_level(logging.WARNING):
        _, heard = started(store, script)
        script.run()
    assert heard == [MINE]
    assert script.waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert len(caplog.records) == 1


def test_a_store_that_is_down_at_the_start_is_no_reason_not_to_start(store):
    def back() -> None:
        store.down = False

    store.down = True
    write(store, MINE)
    script = Script(back)
    _, heard = started(store, script)
    assert heard == []
    script.run()
    assert heard == [MINE]


@given(st.integers(0, 10_000), st.floats(0.001, 1e6))
def test_pauses_are_never_shorter_than_the_interval_and_bounded(outages, interval):
    pause = pause_after(outages, interval)
    assert interval <= pause <= max(interval, LONGEST_PAUSE)
    assert pause <= pause_after(outages + 1, interval)


def test_a_callback_that_fails_is_logged_and_not_called_again(store, caplog):
    calls = []

    def fail(notification) -> None:
        calls.append(notification)
        raise ValueError

    script = Script()
    monitor = DrainMonitor(store, "mine", 1.0, script, script.start_thread)
    monitor.on_drain(fail)
    write(store, MINE)
    monitor.start()
    assert calls == [MINE]
    assert "could not be begun" in caplog.text
    assert monitor.state is State.STOPPED


def test_in_a_thread_of_its_own_it_hears_and_is_gone(store):
    heard = threading.Event()
    seen = []

    def callback(notification) -> None:
        seen.append((notification, threading.current_thread()))
        monitor.stop()  # from its own thread
        heard.set()

    monitor = DrainMonitor(store, "mine", 0.01)
    monitor.on_drain(callback)
    monitor.start()
    write(store, MINE)
    assert heard.wait(30)
    ((notification, thread),) = seen
    assert notification == MINE
    thread.join(30)
    assert not thread.is_alive()


def test_stopping_waits_for_the_thread_however_long_the_interval_is(store):
    monitor = DrainMonitor(store, "mine", 3600.0)
    monitor.on_drain(print)
    before = set(threading.enumerate())
    monitor.start()
    (thread,) = set(threading.enumerate()) - before
    monitor.stop()
    assert not thread.is_alive()


def test_a_notification_for_another_run_is_read_once(store):
    for notification in (MINE, OTHER):
        write(store, notification)
    monitor = DrainMonitor(store, "third", 1.0, pause=Script())
    monitor.on_drain(lambda _: None)
    monitor._state = State.WATCHING
    given = []
    for _ in range(3):
        monitor.look()
        given.append(store.given)
    assert [len(keys) for keys in given] == [2, 0, 0]
    late = DrainNotification.create("third", 7)
    write(store, late)
    assert monitor.look()
    assert store.given == [str(late.id)]
