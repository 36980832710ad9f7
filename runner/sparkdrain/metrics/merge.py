"""Puts the metrics of slots together into those of a job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from apache_beam.portability.api import metrics_pb2

from sparkdrain.metrics.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

Info: TypeAlias = metrics_pb2.MonitoringInfo


class Metrics:
    """Metrics of a job: attempted over all attempts, committed of the one that counts. Thread-safe.

    Each execution of a slot counts once, whether it is heard of before its level ends or after.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempted, self._committed = Tally(), Tally()
        self._heard: set[int] = set()

    def begin_attempt(self) -> None:
        """What was counted so far came to nothing."""
        self._committed = Tally()

    def add(self, report: Any) -> None:
        """Take in the report of a slot whose level has ended."""
        infos = self.hear(report)
        for info in infos:
            self._committed.add(info)

    def hear(self, report: Any) -> list[Info]:
        """Take in what a slot has tried, whose level may still fail; returns its metrics."""
        infos = [Info.FromString(serialized) for serialized in report.metrics]
        with self._lock:
            if report.attempt not in self._heard:
                self._heard.add(report.attempt)
                for info in infos:
                    self._attempted.add(info)
        return infos

    def attempted(self) -> list[Info]:
        """Everything that was tried."""
        with self._lock:
            return list(self._attempted.infos())

    def committed(self) -> list[Info]:
        """What the result rests on."""
        return list(self._committed.infos())


def merge(infos: Iterable[Info]) -> list[Info]:
    """Metrics of one name put together."""
    together = Tally()
    for info in infos:
        together.add(info)
    return together.infos()
