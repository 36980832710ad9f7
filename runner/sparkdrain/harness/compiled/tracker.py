"""Tells which step is at work inside a compiled chain, and how long each one was.

Beam switches a state at every step of every element. A chain does not. When Beam
asks, the line at which the chain stands tells the step. Only then a walk up the stack is paid.

Beam's sampler sees a chain as its first step. A thread looks at the line where the chain stands;
at the end the first step's time is shared out as the looks were.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from apache_beam.metrics import monitoring_infos

from sparkdrain.harness.beam import statesampler
from sparkdrain.harness.compiled.frames import frame_of
from sparkdrain.harness.concurrent.tracker import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.harness.compiled.generate import Chain
    from sparkdrain.harness.compiled.steps import Step
    from sparkdrain.harness.step_book import StepBook

_PERIOD_SECONDS = 0.05
_TIMES = (monitoring_infos.PROCESS_BUNDLE_MSECS_URN, monitoring_infos.TOTAL_MSECS_URN)

StepPair = tuple[str, str]
"""Transform ids: the first step of a chain, and the one at work in it."""


class StepTracker:
    """Stands in for a stage's state sampler where the present state is asked for.

    Args:
        sampler: Beam's.
        book: where the lines of chains are noted down, if anywhere.
    """

    def __init__(self, sampler: Any, book: StepBook | None = None) -> None:
        self._sampler = sampler
        self._book = book
        # By the identity of their code: chains of the same form have equal code.
        self._chains: dict[int, Chain] = {}

    def add(self, chain: Chain) -> None:
        """Know a chain by its code from now on."""
        self._chains[id(chain.code)] = chain
        if self._book is not None:
            steps = (
                (line, step.operation.name_context.step_name) for line, step in chain.lines.items()
            )
            self._book.chain(chain.code, steps)

    def current_state(self) -> Any:
        """The state of the step that is at work."""
        step = self._step_of_key()
        if step is not None:
            return step.current_state()
        thread = self._sampler.tracked_thread
        if thread is None or thread.ident == threading.get_ident():
            found = self._find(sys._getframe(1))  # noqa: SLF001
        else:
            # One that user code of the stage's thread waits for.
            with frame_of(thread.ident) as frame:
                found = self._find(frame)
        if found is None:
            return self._sampler.current_state()
        return found[1].operation.scoped_process_state

    def _step_of_key(self) -> Any:
        """The ``StepMetrics`` of a key in flight, in this thread."""
        step = STEP.get(None)
        return step if step is not None and step.sampler is self._sampler else None

    def start(self) -> None:
        """Have Beam's sampler begin, and stand in for it in this thread."""
        self._sampler.start()
        statesampler.set_current_tracker(self)

    def get_info(self) -> Any:
        """What Beam's harness tells of a bundle: its step is the one at work."""
        info = self._sampler.get_info()
        return info._replace(state_name=self.current_state().name)

    def look(self) -> StepPair | None:
        """First step and present step of the chain that the stage's thread is in, if it is."""
        thread = self._sampler.tracked_thread
        if thread is None:
            return None
        with frame_of(thread.ident) as frame:
            found = self._find(frame)
        return None if found is None else (found[0].first, found[1].transform)

    def _find(self, frame: FrameType | None) -> tuple[Chain, Step] | None:
        while frame is not None:
            chain = self._chains.get(id(frame.f_code))
            if chain is not None:
                step = chain.lines.get(frame.f_lineno)
                return None if step is None else (chain, step)
            frame = frame.f_back
        return None

    def update_metric(self, name: Any, value: Any) -> None:
        """What Beam's metric objects call."""
        step = self._step_of_key()
        if step is not None:
            step.update_metric(name, value)
            return
        container = self.current_state().metrics_container
        if container is not None:
            container.get_metric_cell(name).update(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


class StepTimes:
    """Looks at a thread while it runs compiled chains.

    Args:
        look: tells where the thread stands, or None if it is not in a chain.
    """

    def __init__(self, look: Callable[[], StepPair | None]) -> None:
        self._look = look
        self._seen: Counter[StepPair] = Counter()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-times", daemon=True)

    def start(self) -> None:
        """Begin to look, if it has not begun."""
        if self._thread.ident is None:
            self._thread.start()

    def forget(self) -> None:
        """Forget what was seen until now."""
        with self._lock:
            self._seen.clear()

    def _run(self) -> None:
        while not self._stopped.wait(_PERIOD_SECONDS):
            look = self._look()
            if look is not None:
                with self._lock:
                    self._seen[look] += 1

    def stop(self) -> None:
        """Ends the thread and waits for it. Does nothing if it was never begun."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def shared_out(
        self, infos: Iterable[metrics_pb2.MonitoringInfo]
    ) -> list[metrics_pb2.MonitoringInfo]:
        """The metrics of a stage, with the times of first steps shared out over their chains."""
        infos = list(infos)
        with self._lock:
            seen = dict(self._seen)
        by_key = {
            (info.urn, info.labels[monitoring_infos.PTRANSFORM_LABEL]): info
            for info in infos
            if info.urn in _TIMES
        }
        for first in {first for first, _ in seen}:
            looks = {step: n for (f, step), n in seen.items() if f == first}
            process = by_key.get((monitoring_infos.PROCESS_BUNDLE_MSECS_URN, first))
            if process is None:
                continue
            spent = monitoring_infos.extract_counter_value(process)
            for step, count in looks.items():
                if step != first:
                    self._move(by_key, first, step, spent * count // sum(looks.values()))
        return infos

    def _move(self, by_key: dict[Any, Any], first: str, step: str, msecs: int) -> None:
        for urn in _TIMES:
            for transform, change in ((first, -msecs), (step, msecs)):
                info = by_key.get((urn, transform))
                if info is not None:
                    value = max(0, monitoring_infos.extract_counter_value(info) + change)
                    new = monitoring_infos.int64_counter(urn, value, ptransform=transform)
                    info.payload = new.payload
