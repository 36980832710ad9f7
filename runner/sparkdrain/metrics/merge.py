"""Puts the metrics of slots together into those of a job."""

from __future__ import annotations

from typing import Any

from apache_beam.metrics.monitoring_infos import consolidate, to_key
from apache_beam.portability.api import metrics_pb2


class Metrics:
    """Metrics of a job: attempted over all attempts, committed of the one that counts."""

    def __init__(self) -> None:
        self._attempted: dict[Any, metrics_pb2.MonitoringInfo] = {}
        self._committed: dict[Any, metrics_pb2.MonitoringInfo] = {}

    def begin_attempt(self) -> None:
        """What was counted so far came to nothing."""
        self._committed = {}

    def add(self, report: Any) -> None:
        """Take in the report of a slot whose level has ended."""
        for serialized in report.metrics:
            info = metrics_pb2.MonitoringInfo.FromString(serialized)
            _merge(self._attempted, info)
            _merge(self._committed, info)

    def attempted(self) -> list[metrics_pb2.MonitoringInfo]:
        """Everything that was tried."""
        return list(self._attempted.values())

    def committed(self) -> list[metrics_pb2.MonitoringInfo]:
        """What the result rests on."""
        return list(self._committed.values())


def _merge(into: dict[Any, metrics_pb2.MonitoringInfo], info: metrics_pb2.MonitoringInfo) -> None:
    key = to_key(info)
    known = into.get(key)
    into[key] = info if known is None else next(iter(consolidate([known, info])))
