from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

from sparkdrain.harness.restrictions import OperatedRestrictions
from sparkdrain.rounds.sources.restrictions import Watch

DEADLINE = 30


class Gate:
    may_split = True
    fractions = (0.0, 0.5)
    claimed = 0

    def __init__(self):
        self.open_with = None

    def open(self, allowance, interrupt):
        self.open_with = allowance, interrupt

    def close(self):
        self.open_with = None


class Operation:
    """Can be split at the fractions that are named."""

    name_context = None
    receivers = ()

    def __init__(self, *fractions):
        self.claims = Gate()
        self._fractions = fractions

    def try_split(self, fraction):
        return ([], [(self, left_at(fraction))]) if fraction in self._fractions else None


def left_at(fraction):
    return SimpleNamespace(
        residual_value=f"left at {fraction}", current_watermark=None, deferred_timestamp=None
    )


class Work(OperatedRestrictions):
    """Has a callable called in place of a DoFn; what is left over comes back."""

    def __init__(self, operation):
        super().__init__("Read", operation, None, lambda elements: elements[0](), list)

    def process(self, process):
        return [
            left.element for left in super().process(process, "much", started=False).interrupted
        ]


def test_what_a_split_leaves_over_is_handed_back_once():
    operation = Operation(0.0)
    work = Work(operation)

    def process():
        _, interrupt = operation.claims.open_with
        assert interrupt()
        assert work.interrupt(), "it was split already"

    assert work.process(process) == ["left at 0.0"]
    assert work.process(lambda: None) == []
    assert operation.claims.open_with is None


def test_splits_are_tried_one_after_the_other():
    operation = Operation(0.5)
    work = Work(operation)
    assert work.process(lambda: work.interrupt() or None) == ["left at 0.5"]


def test_nothing_is_split_if_nothing_is_processed():
    work = Work(Operation(0.0))
    assert not work.interrupt()
    assert work.process(lambda: None) == []
    assert not work.interrupt()


def test_nothing_is_split_from_outside_before_the_first_claim():
    operation = Operation(0.0)
    operation.claims.may_split = False
    work = Work(operation)
    assert work.process(lambda: work.interrupt() or None) == []


def test_the_processing_thread_does_not_wait_for_a_split_from_outside():
    """It has a lock of Beam's in hand that the split needs."""
    operation = Operation(0.0)
    beams = threading.Lock()
    splitting, outside = threading.Event(), []

    def try_split(fraction):
        splitting.set()
        with beams:
            return [], [(operation, left_at(fraction))]

    operation.try_split = try_split
    work = Work(operation)

    def process():
        _, interrupt = operation.claims.open_with
        with beams:
            thread = threading.Thread(target=lambda: outside.append(work.interrupt()))
            thread.start()
            assert splitting.wait(DEADLINE)
            assert not interrupt()
        thread.join(DEADLINE)

    assert work.process(process) == ["left at 0.0"]
    assert outside == [True]


def test_an_error_of_the_dofn_passes_and_leaves_the_gate_closed():
    operation = Operation(0.0)
    work = Work(operation)

    class Broken(Exception):
        pass

    def process():
        raise Broken

    try:
        work.process(process)
    except Broken:
        assert operation.claims.open_with is None
        assert not work.interrupt()
    else:
        raise AssertionError


def test_the_watch_interrupts_and_then_complains(caplog):
    interrupted = threading.Event()
    complained = threading.Event()

    class Listen(logging.Handler):
        def emit(self, record):
            if "Topic" in record.getMessage():
                complained.set()

    listener = Listen()
    logging.getLogger("sparkdrain.rounds.sources.restrictions").addHandler(listener)
    try:
        interrupt = lambda: bool(interrupted.set())
        with Watch("Topic", 0.01, 0.02, interrupt, lambda: "Behind") as watch:
            watch.begin()
            assert interrupted.wait(DEADLINE)
            assert complained.wait(DEADLINE)
            watch.end()
    finally:
        logging.getLogger("sparkdrain.rounds.sources.restrictions").removeHandler(listener)
    assert "try_claim" in caplog.text
    assert "the step at work is 'Behind'" in caplog.text


def test_a_watch_without_work_starts_no_thread():
    before = threading.active_count()
    with Watch("Topic", 0.01, 1, lambda: True):
        assert threading.active_count() == before


def test_the_thread_of_a_watch_ends_with_it():
    before = threading.active_count()
    with Watch("Topic", 0.01, 1, lambda: True) as watch:
        watch.begin()
        assert threading.active_count() == before + 1
        watch.end()
    assert threading.active_count() == before
