"""Tells Beam's metrics and logging which step is at work inside a compiled chain.

Beam switches a state at every step of every element. A chain does not; when somebody asks, the
line at which the chain stands tells the step. Asking costs a walk up the stack, only then.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from sparkdrain.harness.compiled.generate import Chain
    from sparkdrain.harness.compiled.steps import Step


class StepTracker:
    """Stands in for a stage's state sampler where the present state is asked for."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._chains: dict[CodeType, Chain] = {}

    def add(self, chain: Chain) -> None:
        """Know a chain by its code from now on."""
        self._chains[chain.code] = chain

    def current_state(self) -> Any:
        """The state of the step that is at work."""
        found = self._find(self._frame())
        if found is None:
            return self._sampler.current_state()
        return found[1].operation.scoped_process_state

    def look(self) -> tuple[str, str] | None:
        """First step and present step of the chain that the stage's thread is in, if it is."""
        thread = self._sampler.tracked_thread
        if thread is None:
            return None
        found = self._find(sys._current_frames().get(thread.ident))  # noqa: SLF001
        return None if found is None else (found[0].first, found[1].transform)

    def _find(self, frame: FrameType | None) -> tuple[Chain, Step] | None:
        while frame is not None:
            chain = self._chains.get(frame.f_code)
            if chain is not None:
                step = chain.lines.get(frame.f_lineno)
                return None if step is None else (chain, step)
            frame = frame.f_back
        return None

    def _frame(self) -> FrameType | None:
        """Where the stage's thread stands; also for a thread that user code has it wait for."""
        thread = self._sampler.tracked_thread
        if thread is None or thread.ident == threading.get_ident():
            return sys._getframe(2)  # noqa: SLF001
        return sys._current_frames().get(thread.ident)  # noqa: SLF001

    def update_metric(self, name: Any, value: Any) -> None:
        """What Beam's metric objects call."""
        container = self.current_state().metrics_container
        if container is not None:
            container.get_metric_cell(name).update(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)
