"""The metrics of many bundles, put together as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

from apache_beam.portability.api import metrics_pb2

from sparkdrain.metrics.laws import apart, joined, since

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

MetricName = NewType("MetricName", tuple[str, str, frozenset[tuple[str, str]]])
"""What a metric is of: URN, type and labels."""


class Tally:
    """Metrics of which those of one name are one, by the law of their type."""

    def __init__(self) -> None:
        self._payloads: dict[Hashable, tuple[metrics_pb2.MonitoringInfo, bytes]] = {}
        self._made: list[metrics_pb2.MonitoringInfo] | None = None

    def add(self, info: metrics_pb2.MonitoringInfo) -> None:
        """Take in a metric."""
        self.take(name_of(info), info, info.payload)

    def take(self, name: MetricName, named: metrics_pb2.MonitoringInfo, payload: bytes) -> None:
        """Take in a metric whose payload came without its name.

        Args:
            named: a metric of that name, with any payload.
        """
        key = _key_of(name, named, payload)
        known = self._payloads.get(key)
        together = payload if known is None else joined(named.type, known[1], payload)
        self._payloads[key] = named, together
        self._made = None

    def added(
        self, infos: Iterable[metrics_pb2.MonitoringInfo]
    ) -> list[metrics_pb2.MonitoringInfo]:
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

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """The metrics, each with a payload. The caller must not change them."""
        if self._made is None:
            self._made = [
                named if named.payload == payload else with_payload(named, payload)
                for named, payload in self._payloads.values()
            ]
        return self._made


def name_of(info: metrics_pb2.MonitoringInfo) -> MetricName:
    """What a metric is of."""
    return MetricName((info.urn, info.type, frozenset(info.labels.items())))


def with_payload(named: metrics_pb2.MonitoringInfo, payload: bytes) -> metrics_pb2.MonitoringInfo:
    """A metric, given one of the same name."""
    return metrics_pb2.MonitoringInfo(
        urn=named.urn, type=named.type, labels=named.labels, payload=payload
    )


def _key_of(name: MetricName, named: metrics_pb2.MonitoringInfo, payload: bytes) -> Hashable:
    """What metrics have in common that can be put together: a name, and at times a form."""
    form = apart(named.type, payload)
    return (name, form) if form else name
