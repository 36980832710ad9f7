"""Engines for tests of everything above the engine: one that obeys, and one that is Beam's own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner

from sparkdrain.errors import Cancelled
from sparkdrain.invocation import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.invocation import Invocation


class FakeEngine:
    """Does what ``behave`` says, under a lease of that epoch; remembers its calls."""

    def __init__(
        self, behave: Callable[[Invocation], Outcome | None] = lambda call: None, epoch: int = 0
    ) -> None:
        self.behave = behave
        self.epoch = epoch
        self.refuse: Exception | None = None
        self.calls: list[Invocation] = []

    def head_start(self, settings: Any) -> None:
        pass

    def check(self, pipeline: Any, settings: Any) -> None:
        if self.refuse is not None:
            raise self.refuse

    def execute(self, invocation: Invocation) -> Outcome:
        invocation.observer.began(self.epoch)
        self.calls.append(invocation)
        return self.behave(invocation) or Outcome()


def until_cancelled(call: Invocation) -> None:
    """A job that goes on until somebody cancels it."""
    stopped = threading.Event()
    call.cancel.on_cancel(stopped.set)
    if not stopped.wait(60):
        message = "nobody cancelled the job"
        raise AssertionError(message)
    raise Cancelled


def until_drained(call: Invocation) -> Outcome:
    """A job without end that stops as it should when somebody drains or cancels it."""
    stopped = threading.Event()
    call.cancel.on_cancel(stopped.set)
    call.drain.on_request(stopped.set)
    if not stopped.wait(60):
        message = "nobody drained the job"
        raise AssertionError(message)
    if call.cancel.is_cancelled():
        raise Cancelled
    return Outcome(drained=True)


class BeamsEngine(FakeEngine):
    """Runs pipelines for real, in this process, with the runner that comes with Beam."""

    def __init__(self) -> None:
        super().__init__(self._run)

    def _run(self, call: Invocation) -> Outcome:
        options = PipelineOptions([], **call.pipeline_options)
        result = fn_runner.FnApiRunner().run_via_runner_api(call.pipeline, options)
        result.wait_until_finish()
        infos = list(result.monitoring_infos())
        return Outcome(infos, infos)
