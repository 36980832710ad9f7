"""Bundle finalizers that hang stop no round, and nothing that waits behind them is lost."""

from __future__ import annotations

import threading
import time
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.rounds import finalizers
from sparkdrain.rounds.finalizers import FinalizerCalls, Finalizers
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.waiting import wait_until

SOON = 0.2
LONG = 60


class Gate:
    """Finalizers that note down that they were called; one of them waits for the gate."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.called: list = []
        self.then: list = []

    def hang(self) -> None:
        self.opened.wait(LONG)
        self.called.append("hung")

    def of(self, name):
        return partial(self.called.append, name), partial(self.then.append, name)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()


def test_finalizers_are_called_in_their_order_before_the_round_goes_on(gate):
    FinalizerCalls().call("Step", map(gate.of, range(100)))
    assert gate.called == gate.then == list(range(100))


def test_one_that_hangs_is_left_alone_and_the_others_of_its_step_follow_when_it_returns(
    gate, caplog
):
    calls = FinalizerCalls(SOON)
    began = time.monotonic()
    calls.call("Step", [(gate.hang, partial(gate.then.append, "hung")), gate.of(1)])
    calls.call("Step", [gate.of(2)])
    assert time.monotonic() - began < LONG / 4
    assert gate.called == gate.then == []
    assert [record.args[0] for record in caplog.records] == ["Step"]
    assert "Rounds go on" in caplog.text
    gate.opened.set()
    wait_until(lambda: gate.then == ["hung", 1, 2])
    wait_until(lambda: not calls._lines["Step"].calls._hung.is_alive())
    calls.call("Step", [gate.of(3)])
    assert gate.called == ["hung", 1, 2, 3]


def test_finalizers_of_other_steps_are_called_meanwhile(gate):
    calls = FinalizerCalls(SOON)
    calls.call("Hangs", [(gate.hang, int)])
    calls.call("Other", [gate.of(1)])
    assert gate.called == [1]


def test_no_more_than_so_many_wait_and_the_oldest_are_dropped(gate, monkeypatch, caplog):
    monkeypatch.setattr(finalizers, "_MOST_WAITING", 3)
    calls = FinalizerCalls(SOON)
    calls.call("Step", [(gate.hang, int)])
    calls.call("Step", map(gate.of, range(5)))
    assert gate.then == [0, 1]
    assert "2 bundle finalizers of Step are not called" in caplog.text
    gate.opened.set()
    wait_until(lambda: gate.called == ["hung", 2, 3, 4])


@pytest.mark.parametrize("error", [ValueError(), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_finalizer_raises_is_logged_and_the_next_one_is_called(gate, caplog, error):
    def fail():
        raise error

    FinalizerCalls().call("Step", [(fail, partial(gate.then.append, 0)), gate.of(1)])
    assert gate.then == [0, 1]
    assert "a bundle finalizer failed" in caplog.text


def test_what_user_code_does_not_answer_in_time_is_answered_for_it(gate):
    calls = FinalizerCalls(SOON)
    assert calls.ask("Step", lambda: "told", "nothing") == "told"
    assert calls.ask("Step", lambda: gate.opened.wait(LONG), "nothing") == "nothing"
    assert calls.ask("Step", lambda: "told", "nothing") == "nothing"


class Never:
    """An acknowledgement that neither arrives nor says so."""

    ident, data = "one", ""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __call__(self) -> None:
        self._gate.called.append("told")

    def settle(self, seconds: float) -> bool:
        return self._gate.opened.wait(LONG)


def test_an_acknowledgement_that_hangs_stops_neither_rounds_nor_the_end_of_the_job(gate):
    finalizers = Finalizers(calls=FinalizerCalls(SOON))
    began = time.monotonic()
    for number in range(5):
        finalizers.registered(number, [("Step", Never(gate))])
        finalizers.committed()
    assert finalizers.settle(0.1) == ["Step one: its finalizers do not return"]
    assert time.monotonic() - began < LONG / 4


GATE = Gate()


class Hangs(beam.DoFn):
    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(GATE.hang)
        yield element


def test_a_stream_whose_finalizer_hangs_comes_to_its_end(monkeypatch):
    monkeypatch.setattr(finalizers.FinalizerCalls.__init__, "__defaults__", (SOON,))
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(Hangs())
    began = time.monotonic()
    try:
        run_in_rounds(pipeline, slots=1)
        assert time.monotonic() - began < LONG / 2
        assert not GATE.called
    finally:
        GATE.opened.set()
    wait_until(lambda: GATE.called)
