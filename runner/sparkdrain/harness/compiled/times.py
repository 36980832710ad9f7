"""How long each step of a compiled chain was at work, by looking now and then.

Beam's sampler sees a chain as its first step. A thread looks at the line where the chain stands;
at the end the first step's time is shared out as the looks were.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from apache_beam.metrics import monitoring_infos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apache_beam.portability.api import metrics_pb2

_PERIOD_SECONDS = 0.05
_TIMES = (monitoring_infos.PROCESS_BUNDLE_MSECS_URN, monitoring_infos.TOTAL_MSECS_URN)

StepPair = tuple[str, str]
"""Transform ids: the first step of a chain, and the one at work in it."""


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
