"""Puts metrics together: those of many bundles as they come, and those of slots into a job's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NewType, TypeAlias

from apache_beam.portability.api import metrics_pb2

from sparkdrain.metrics.laws import apart, joined, since

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

Info: TypeAlias = metrics_pb2.MonitoringInfo
MetricName = NewType("MetricName", tuple[str, str, frozenset[tuple[str, str]]])
"""What a metric is of: URN, type and labels."""


class Tally:
    """Metrics of which those of one name are one, by the law of their type."""

    def __init__(self) -> None:
        self._payloads: dict[Hashable, tuple[Info, bytes]] = {}
        self._made: list[Info] | None = None

    def add(self, info: Info) -> None:
        """Take in a metric."""
        self.take(name_of(info), info, info.payload)

    def take(self, name: MetricName, named: Info, payload: bytes) -> None:
        """Take in a metric whose payload came without its name.

        Args:
            named: a metric of that name, with any payload.
        """
        key = _key_of(name, named, payload)
        known = self._payloads.get(key)
        together = payload if known is None else joined(named.type, known[1], payload)
        self._payloads[key] = named, together
        self._made = None

    def added(self, infos: Iterable[Info]) -> list[Info]:
        """What has been added to metrics that only grow, if they were as they are here.

        Args:
            infos: the metrics as they are.
        """
        found = []
        for info in infos:
            known = self._payloads.get(_key_of(name_of(info), info, info.payload))
            if known is None:
                found.append(info)
            elif known[1] != info.payload:
                found.append(with_payload(info, since(info.type, known[1], info.payload)))
        return found

    def infos(self) -> list[Info]:
        """The metrics, each with a payload. The caller must not change them."""
        if self._made is None:
            self._made = [
                named if named.payload == payload else with_payload(named, payload)
                for named, payload in self._payloads.values()
            ]
        return self._made


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


def name_of(info: Info) -> MetricName:
    """What a metric is of."""
    return MetricName((info.urn, info.type, frozenset(info.labels.items())))


def with_payload(named: Info, payload: bytes) -> Info:
    """A metric, given one of the same name."""
    return Info(urn=named.urn, type=named.type, labels=named.labels, payload=payload)


def _key_of(name: MetricName, named: Info, payload: bytes) -> Hashable:
    """What metrics have in common that can be put together: a name, and at times a form."""
    form = apart(named.type, payload)
    return (name, form) if form else name
