"""Drivers that all think the job is theirs, in any order of their calls, some of them dying."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from drivers import Driver, World
from faulty_storage import Died, Fault
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKPOINTS = 3


class Turns:
    """Lets one driver at a time make one call, and waits until it wants to make the next."""

    def __init__(self, world, token):
        self.driver = Driver(world, self._ask, token, CHECKPOINTS)
        self.over = False
        self.error = None
        self._fault = Fault.NONE
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._waits.acquire(timeout=30)

    def step(self, fault):
        """One call, and what follows from it up to the next."""
        self._fault = fault
        self._go.release()
        assert self._waits.acquire(timeout=30)
        if self.error is not None:
            raise self.error

    def _ask(self, what):
        del what
        self._waits.release()
        assert self._go.acquire(timeout=60)
        return self._fault

    def _run(self):
        try:
            self.driver.run()
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001
            self.error = error
        self.over = True
        self._waits.release()


FAULTS = st.sampled_from([Fault.NONE] * 60 + [fault for fault in Fault if fault is not Fault.NONE])
# Whose turn it is, and for how many calls.
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30), FAULTS), max_size=30)


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_what_was_told_is_known_to_whoever_takes_over(steps):
    play(steps)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_what_was_told_is_known_to_whoever_takes_over_in_many_orders(steps):
    play(steps)


def play(steps):
    directory = Path(tempfile.mkdtemp())
    try:
        run(World(directory), steps)
    finally:
        shutil.rmtree(directory)


def run(world, steps):
    drivers = {}
    for who, calls, fault in steps:
        if who not in drivers:
            drivers[who] = Turns(world, f"t{who}")
        for call in range(calls):
            if drivers[who].over:
                break
            before = len(world.files), len(world.told)
            drivers[who].step(fault if call == calls - 1 else Fault.NONE)
            if len(world.files) < before[0] or len(world.told) > before[1]:
                world.check()
    for driver in drivers.values():
        while not driver.over:
            driver.step(Fault.NONE)
    world.check()
    epochs = [driver.driver.epoch for driver in drivers.values() if driver.driver.epoch]
    assert len(set(epochs)) == len(epochs), "two drivers had the same epoch"
    last = Turns(world, "last")
    while not last.over:
        last.step(Fault.NONE)
    assert last.driver.epoch > max(epochs, default=0)
    assert [epoch for epoch, _ in world.told[-CHECKPOINTS:]] == [last.driver.epoch] * CHECKPOINTS
    world.check()
