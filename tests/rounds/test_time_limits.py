from __future__ import annotations

import logging
import signal
import threading
import time

import pytest

from sparkdrain.drain.limits import LimitKind, Limits
from sparkdrain.errors import DrainLimitExceeded
from sparkdrain.rounds.slots.time_limits import limited

HANGS = 30.0
FAST = Limits(element=0.05, watermark=0.05, policy="fail")


@pytest.fixture(autouse=True)
def alarms_are_left_as_they_were():
    handler, (left, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    yield
    assert signal.getsignal(signal.SIGALRM) is handler
    assert bool(signal.getitimer(signal.ITIMER_REAL)[0]) == bool(left)


@pytest.mark.parametrize("policy", ["fail", "cancel"])
def test_what_hangs_is_interrupted_and_named(policy):
    began = time.monotonic()
    with (
        pytest.raises(DrainLimitExceeded, match="slot 1 of 'Slow' has worked on the elements"),
        limited(Limits(element=0.05, policy=policy), LimitKind.ELEMENT, "slot 1 of 'Slow'"),
    ):
        time.sleep(HANGS)
    assert time.monotonic() - began < HANGS


def test_code_that_swallows_exceptions_is_interrupted_again():
    swallowed = []

    def stubborn() -> None:
        while len(swallowed) < 2:
            try:
                time.sleep(HANGS)
            except DrainLimitExceeded as error:
                swallowed.append(error)

    with pytest.raises(DrainLimitExceeded), limited(FAST, LimitKind.ELEMENT, "slot 1"):
        stubborn()
    assert len(swallowed) == 2


@pytest.mark.parametrize("kind", [LimitKind.ELEMENT, LimitKind.WATERMARK])
def test_a_limit_of_another_kind_does_not_count(kind):
    other = Limits(
        element=None if kind is LimitKind.ELEMENT else 0.001,
        watermark=None if kind is LimitKind.WATERMARK else 0.001,
    )
    with limited(other, kind, "slot 1"):
        time.sleep(0.02)


def test_what_ends_in_time_is_left_alone_and_no_alarm_comes_later():
    others = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        with limited(FAST, LimitKind.ELEMENT, "slot 1"):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)


def test_with_the_policy_to_wait_it_is_told_again_and_again_and_goes_on(caplog):
    limits = Limits(watermark=0.02, policy="wait")
    with caplog.at_level(logging.WARNING), limited(limits, LimitKind.WATERMARK, "slot 1"):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            time.sleep(0.01)
    told = [record.getMessage() for record in caplog.records]
    # After 20, 40, 80 and 160 ms; fewer if the machine did not let this process run.
    assert 2 <= len(told) <= 5
    assert all("--drain_watermark_limit_ms allows 0.02 s" in text for text in told)


def test_beside_the_main_thread_it_is_found_out_afterwards():
    raised = []

    def run() -> None:
        now = iter([0.0, 0.06, 0.06])
        try:
            with limited(FAST, LimitKind.ELEMENT, "slot 1", lambda: next(now)):
                pass
        except DrainLimitExceeded as error:
            raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert raised == [
        "slot 1 has worked on the elements of one round for 0.1 s, and "
        "--drain_element_limit_ms allows 0.05 s (--drain_limit_policy=fail)."
    ]


def test_the_exception_of_what_runs_is_not_hidden():
    with pytest.raises(ZeroDivisionError), limited(FAST, LimitKind.ELEMENT, "slot 1"):
        raise ZeroDivisionError


def test_an_alarm_of_somebody_else_still_comes():
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append("theirs"))
    left, every = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(DrainLimitExceeded), limited(FAST, LimitKind.ELEMENT, "slot 1"):
            time.sleep(HANGS)
        end = time.monotonic() + 30
        while not heard and time.monotonic() < end:
            time.sleep(0.01)
        assert heard == ["theirs"]
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left, every)
