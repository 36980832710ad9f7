"""Drivers that all think the job is theirs, in any order of their calls, some of them dying."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from drivers import Driver, World
from faulty_storage import Died, Fault, FaultyStorage, listed
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.checkpoints.beam_storage import BeamStorage
from sparkdrain.errors import CheckpointDamaged

CHECKPOINTS = 3


class Turns:
    """Lets one driver at a time make one call, and waits until it wants to make the next."""

    def __init__(self, world, token, driver=Driver):
        self.driver = driver(world, self._ask, token, CHECKPOINTS)
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
    play(steps, with_good_looks)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_what_was_told_is_known_to_whoever_takes_over_in_many_orders(steps):
    play(steps, with_good_looks)


def play(steps, how):
    directory = Path(tempfile.mkdtemp())
    try:
        how(World(directory), steps)
    finally:
        shutil.rmtree(directory)


def with_good_looks(world, steps):
    drivers = run(world, steps, Driver)
    epochs = [driver.driver.epoch for driver in drivers if driver.driver.epoch]
    assert len(set(epochs)) == len(epochs), "two drivers had the same epoch"
    take_over(world, epochs)


def take_over(world, epochs):
    """A driver that sees all that is there goes on."""
    last = Turns(world, "last")
    while not last.over:
        last.step(Fault.NONE)
    assert last.driver.epoch > max(epochs, default=0)
    assert [epoch for epoch, _ in world.told[-CHECKPOINTS:]] == [last.driver.epoch] * CHECKPOINTS
    world.check()


def run(world, steps, kind):
    """All drivers, to their ends."""
    drivers = {}
    for who, calls, fault, *old in steps:
        if who not in drivers:
            drivers[who] = Turns(world, f"t{who}", kind)
        drivers[who].driver.storage.is_old = any(old)
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
    return list(drivers.values())


# --- looks that miss what is there --------------------------------------------------------------


class OldLooks(FaultyStorage):
    """A machine whose looks into folders may show what it knew before, as attribute caches do.

    It sees what it has done itself, and what it opens by name; and nobody makes what is there.
    """

    def __init__(self, files, ask):
        super().__init__(files, ask)
        self.is_old = False
        self._known = {}

    def list(self, folder):
        fresh = super().list(folder)
        if self.is_old:
            return listed(self._known, folder)
        gone = {f"{folder}/{name}" for name in listed(self._known, folder)} - self.files.keys()
        for path in gone:
            del self._known[path]
        self._known.update({f"{folder}/{name}": b"x" * size for name, size in fresh.items()})
        return fresh

    def write(self, path, chunks):
        data = b"".join(chunks)
        super().write(path, [data])
        self._known[path] = data

    def publish(self, path, data):
        super().publish(path, data)
        self._known[path] = data

    def delete(self, paths):
        super().delete(paths)
        for path in paths:
            self._known.pop(path, None)


class Misled(Driver):
    """A driver on such a machine; what it goes on from may be old, or removed."""

    kind = OldLooks

    def run(self):
        with suppress(CheckpointDamaged):
            super().run()

    def _known(self, lease):
        return set()


OLD_LOOKS = st.tuples(st.integers(0, 2), st.integers(1, 30), FAULTS, st.booleans())


@settings(max_examples=50, deadline=None)
@given(st.lists(OLD_LOOKS, max_size=30))
def test_of_drivers_that_do_not_see_each_other_one_is_believed(steps):
    play(steps, with_old_looks)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(st.lists(OLD_LOOKS, max_size=40))
def test_of_drivers_that_do_not_see_each_other_one_is_believed_in_many_orders(steps):
    play(steps, with_old_looks)


def with_old_looks(world, steps):
    drivers = run(world, steps, Misled)
    take_over(world, [driver.driver.epoch for driver in drivers])


# --- object stores --------------------------------------------------------------------------------


class Objects(FaultyStorage):
    """Publishes as what Beam's file systems reach does: by looks, which show what is there.

    An object is there as a whole or not at all.
    """

    publish = BeamStorage.publish

    def _write(self, what, path, data):
        self._call(what, lambda: self.files.__setitem__(path, data))


class Far(Driver):
    """A driver whose checkpoints are in an object store."""

    kind = Objects

    def run(self):
        with suppress(CheckpointDamaged):
            super().run()


LATE = st.sampled_from([Fault.NONE] * 20 + [Fault.LATE] * 6 + list(Fault))
LANDINGS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 30), LATE, st.sets(st.integers(0, 2)))
)


@settings(max_examples=25, deadline=None)
@given(LANDINGS)
def test_of_drivers_of_an_object_store_whose_writes_come_late_one_is_believed(steps):
    play(steps, with_late_writes)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(LANDINGS)
def test_of_drivers_of_an_object_store_whose_writes_come_late_one_is_believed_in_many_orders(steps):
    play(steps, with_late_writes)


def with_late_writes(world, steps):
    drivers = {}
    for who, calls, fault, landing in steps:
        for each in sorted(landing & drivers.keys()):
            drivers[each].driver.storage.land()
            world.check()
        if who not in drivers:
            drivers[who] = Turns(world, f"t{who}", Far)
        for call in range(calls):
            if drivers[who].over:
                break
            before = len(world.files), len(world.told)
            drivers[who].step(fault if call == calls - 1 else Fault.NONE)
            if len(world.files) < before[0] or len(world.told) > before[1]:
                world.check()
    for each in drivers.values():
        while not each.over:
            each.step(Fault.NONE)
    for each in drivers.values():
        each.driver.storage.land()
        world.check()
    take_over(world, [each.driver.epoch for each in drivers.values()])
