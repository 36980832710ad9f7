"""Metrics of user code that runs in the loop's thread, or in a thread of a pool."""

from __future__ import annotations

import contextvars
from typing import Any, Final

from sparkdrain.harness.beam import statesampler

STEP: Final[contextvars.ContextVar[Any]] = contextvars.ContextVar("sparkdrain-step")
"""The ``StepMetrics`` of the step whose code runs in a task of the loop."""


ELEMENT: Final[contextvars.ContextVar[Any]] = contextvars.ContextVar("sparkdrain-element")
"""The element whose code runs, of a step whose metrics count with their elements."""


class StepMetrics:
    """Stands in for a state sampler where one step runs: its metrics are the step's."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation
        self.sampler = operation.state_sampler

    def current_state(self) -> Any:
        """The state of the step."""
        return self._operation.scoped_process_state

    def update_metric(self, name: Any, value: Any) -> None:
        """What Beam's metric objects call."""
        element = ELEMENT.get(None)
        if element is not None and element.updates is not None:
            element.updates.append((name, value))
        else:
            self.count(name, value)

    def count(self, name: Any, value: Any) -> None:
        """Add to the metrics of the step."""
        self._operation.metrics_container.get_metric_cell(name).update(value)

    async def as_step(self, called: Any) -> Any:
        """Await what runs in the loop as code of the step."""
        STEP.set(self)
        return await called

    def enter(self) -> None:
        """Count for this step in this thread, which runs nothing else from now on."""
        statesampler.set_current_tracker(self)


class _OfTask:
    """Finds the step of the task that runs in the loop."""

    def current_state(self) -> Any:
        return STEP.get().current_state()

    def update_metric(self, name: Any, value: Any) -> None:
        step = STEP.get(None)
        if step is not None:
            step.update_metric(name, value)


def enter_loop() -> None:
    """Have this thread, which is the loop's, count for the step of each task."""
    statesampler.set_current_tracker(_OfTask())
