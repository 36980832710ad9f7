"""The event loop in the slot's thread, and what interrupts that thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from sparkdrain.harness.concurrent import loop as loops
from sparkdrain.harness.concurrent.limit import TimeLimit
from sparkdrain.harness.concurrent.loop import SlotLoop


class OverLimitError(Exception):
    """What the handler raises, as that of a drain limit does."""


@pytest.fixture
def raising():
    def handle(_number, _frame):
        raise OverLimitError

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def loop():
    with contextlib.closing(SlotLoop()) as made:
        yield made


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize(
    "waits", [lambda loop: loop.run(None), lambda loop: loop.wait(asyncio.sleep(3600))]
)
def test_what_a_handler_of_a_signal_raises_interrupts_a_wait(loop, waits):
    told = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    with pytest.raises(OverLimitError):
        told.start()
        waits(loop)
    told.join()
    loop.wait(asyncio.sleep(0))  # it goes on


def test_time_stands_still_while_the_slot_is_elsewhere(loop, monkeypatch):
    monkeypatch.setattr(loops, "_REST_SECONDS", 0.001)
    loop.run(0)
    before, real = loop.time(), loop.loop.time()
    time.sleep(0.02)
    loop.run(0)
    assert loop.time() - before < loop.loop.time() - real - 0.01


def test_a_limit_waits_for_its_clock(loop):
    now, ended = [0.0], []

    async def attempt():
        element = SimpleNamespace(is_armed=False, is_overdue=False, task=asyncio.current_task())
        limit = TimeLimit(0.001, loop.loop, lambda: now[0], ended.append)
        limit.arm(element)
        await asyncio.sleep(0.01)
        assert not element.is_overdue
        now[0] = 1.0
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return element.is_overdue

    assert loop.wait(attempt())
    assert not ended


def test_other_errors_in_the_loop_are_logged_and_interrupt_nothing(loop, caplog):
    async def fails():
        loop.loop.call_soon(int, "no number")
        await asyncio.sleep(0.001)
        return "done"

    assert loop.wait(fails()) == "done"
    assert "no number" in caplog.text
