"""Puts the metrics of slots together into those of a job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from apache_beam import coders
from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import StringSetData
from apache_beam.portability.api import metrics_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Info: TypeAlias = metrics_pb2.MonitoringInfo


class Metrics:
    """Metrics of a job: attempted over all attempts, committed of the one that counts. Thread-safe.

    Each execution of a slot counts once, whether it is heard of before its level ends or after.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempted: dict[Any, Info] = {}
        self._committed: dict[Any, Info] = {}
        self._heard: set[int] = set()

    def begin_attempt(self) -> None:
        """What was counted so far came to nothing."""
        self._committed = {}

    def add(self, report: Any) -> None:
        """Take in the report of a slot whose level has ended."""
        infos = self.hear(report)
        for info in infos:
            _merge(self._committed, info)

    def hear(self, report: Any) -> list[Info]:
        """Take in what a slot has tried, whose level may still fail; returns its metrics."""
        infos = [Info.FromString(serialized) for serialized in report.metrics]
        with self._lock:
            if report.attempt not in self._heard:
                self._heard.add(report.attempt)
                for info in infos:
                    _merge(self._attempted, info)
        return infos

    def attempted(self) -> list[Info]:
        """Everything that was tried."""
        with self._lock:
            return list(self._attempted.values())

    def committed(self) -> list[Info]:
        """What the result rests on."""
        return list(self._committed.values())


def merge(infos: Iterable[Info]) -> list[Info]:
    """Metrics of one name put together."""
    together: dict[Any, Info] = {}
    for info in infos:
        _merge(together, info)
    return list(together.values())


def _merge(into: dict[Any, Info], info: Info) -> None:
    key = monitoring_infos.to_key(info)
    known = into.get(key)
    into[key] = info if known is None else merged(known, info)


def merged(a: Info, b: Info) -> Info:
    """The metric that two of one name and type make together; of an unknown type, the later."""
    combine = _COMBINERS.get(a.type)
    if combine is None:
        return b
    return Info(urn=a.urn, type=a.type, labels=a.labels, payload=combine(a, b))


def _latest(a: Info, b: Info) -> bytes:
    newer: Info = max(a, b, key=lambda info: monitoring_infos.extract_gauge_value(info)[0])
    return newer.payload


def _union(a: Info, b: Info) -> bytes:
    one, other = map(monitoring_infos.extract_string_set_value, (a, b))
    # Beam's own limits how many bytes a set may have.
    together = StringSetData(one).combine(StringSetData(other)).string_set
    return coders.IterableCoder(coders.StrUtf8Coder()).encode(sorted(together))


def _trie(a: Info, b: Info) -> bytes:
    one, other = map(monitoring_infos.extract_bounded_trie_value, (a, b))
    return one.combine(other).to_proto().SerializeToString()


def _histogram(a: Info, b: Info) -> bytes:
    one, other = map(monitoring_infos.extract_histogram_value, (a, b))
    return one.combine(other).to_proto().SerializeToString()


def _payloads(combine: Callable[[bytes, bytes], bytes]) -> Callable[[Info, Info], bytes]:
    return lambda a, b: combine(a.payload, b.payload)


_COMBINERS: dict[str, Callable[[Info, Info], bytes]] = {
    monitoring_infos.SUM_INT64_TYPE: _payloads(monitoring_infos.sum_payload_combiner),
    monitoring_infos.DISTRIBUTION_INT64_TYPE: _payloads(
        monitoring_infos.distribution_payload_combiner
    ),
    monitoring_infos.LATEST_INT64_TYPE: _latest,
    monitoring_infos.STRING_SET_TYPE: _union,
    monitoring_infos.BOUNDED_TRIE_TYPE: _trie,
    monitoring_infos.HISTOGRAM_TYPE: _histogram,
}
