from __future__ import annotations

import threading
import time

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal

FIRST = DrainNotification.create("run-1", 1)
SECOND = DrainNotification.create("run-1", 2)


def test_the_first_request_wins_and_later_ones_change_nothing():
    signal, called = DrainSignal(), []
    signal.on_request(lambda: called.append("early"))
    assert signal.requested() is None
    assert signal.request(FIRST)
    assert not signal.request(SECOND)
    assert not signal.request(FIRST)
    assert signal.requested() == FIRST
    assert called == ["early"]


def test_a_callback_that_is_registered_too_late_runs_at_once():
    signal, called = DrainSignal(), []
    signal.request(FIRST)
    signal.on_request(lambda: called.append("late"))
    assert called == ["late"]


def test_callbacks_see_the_request_and_run_in_their_order():
    signal, seen = DrainSignal(), []
    signal.on_request(lambda: seen.append((1, signal.requested())))
    signal.on_request(lambda: seen.append((2, signal.requested())))
    signal.request(FIRST)
    assert seen == [(1, FIRST), (2, FIRST)]


def test_a_callback_that_fails_does_not_keep_the_others_from_hearing(caplog):
    signal, called = DrainSignal(), []
    signal.on_request(lambda: 1 / 0)
    signal.on_request(lambda: called.append("next"))
    assert signal.request(FIRST)
    assert called == ["next"]
    assert "A callback of a drain request failed." in caplog.text


class Slow(DrainSignal):
    """Lets other threads run between a look at the request and the next step."""

    @property
    def _notification(self):
        seen = self.__dict__.get("notification")
        time.sleep(0.01)
        return seen

    @_notification.setter
    def _notification(self, value):
        self.__dict__["notification"] = value


def test_of_many_threads_that_request_exactly_one_is_the_first():
    signal, calls, won = Slow(), [], []
    signal.on_request(lambda: calls.append(1))
    together = threading.Barrier(8)

    def ask(number: int) -> None:
        together.wait(30)
        if signal.request(DrainNotification.create("run-1", number)):
            won.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == len(calls) == 1
    assert signal.requested().time.microsecond == won[0]
