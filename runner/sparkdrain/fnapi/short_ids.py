"""The short ids by which an SDK harness names metrics in its answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from apache_beam.portability.api import beam_fn_api_pb2

from sparkdrain.metrics.merge import name_of, with_payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.metrics.merge import MetricName

_LOGGER = logging.getLogger(__name__)


class Answer(Protocol):
    """An answer with metrics: of a bundle that has ended, or of one that is processed."""

    @property
    def monitoring_data(self) -> Mapping[str, bytes]:
        """Payloads by short id."""

    @property
    def monitoring_infos(self) -> Sequence[metrics_pb2.MonitoringInfo]:
        """Metrics with their names."""


class ShortIds:
    """What the short ids of one harness stand for.

    A harness makes them up. They are its own, and stand for the same metrics as long as its
    connection lives. So each is asked for once.
    """

    def __init__(self) -> None:
        # None: the harness has not said what it stands for, and is not asked again.
        self._named: dict[str, tuple[MetricName, metrics_pb2.MonitoringInfo] | None] = {}

    def unknown(self, answer: Answer) -> list[str]:
        """The ids of an answer that were not asked for yet."""
        return [id_ for id_ in answer.monitoring_data if id_ not in self._named]

    def learn(self, answer: Answer, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """Know what the ids of an answer stand for, from the response to ``asking``."""
        told = response.monitoring_infos.monitoring_info
        missing = []
        for id_ in self.unknown(answer):
            if id_ in told:
                self._named[id_] = name_of(told[id_]), told[id_]
            else:
                self._named[id_] = None
                missing.append(id_)
        # TypeScript's harness explains nothing, and sends all metrics with their names, too.
        if missing and len(answer.monitoring_infos) < len(answer.monitoring_data):
            _LOGGER.warning(
                "A harness does not say what its metrics %s are, so they are left out%s. See "
                "whether its SDK answers a MonitoringInfosMetadataRequest.",
                ", ".join(missing),
                f": {response.error}" if response.error else "",
            )

    def metrics(
        self, answer: Answer
    ) -> Iterator[tuple[MetricName, metrics_pb2.MonitoringInfo, bytes]]:
        """Each metric of an answer once: name, a metric of that name, payload.

        Beam's harness in Python or TypeScript sends all of them by id and with their names, too.
        """
        seen = set()
        for id_, payload in answer.monitoring_data.items():
            found = self._named.get(id_)
            if found is not None:
                seen.add(found[0])
                yield *found, payload
        for info in answer.monitoring_infos:
            name = name_of(info)
            if name not in seen:
                yield name, info, info.payload

    def infos(self, answer: Answer) -> list[metrics_pb2.MonitoringInfo]:
        """The metrics of an answer, each once."""
        return [with_payload(info, payload) for _, info, payload in self.metrics(answer)]


def latest(before: Answer | None, after: Answer) -> Answer:
    """What two answers of a bundle say together.

    An SDK may leave out what has not changed since it told it. Java does so.
    """
    if before is None:
        return after
    together = beam_fn_api_pb2.ProcessBundleProgressResponse()
    infos: dict[MetricName, metrics_pb2.MonitoringInfo] = {}
    for answer in (before, after):
        together.monitoring_data.update(answer.monitoring_data)
        infos.update((name_of(info), info) for info in answer.monitoring_infos)
    together.monitoring_infos.extend(infos.values())
    return together


def asking(ids: Iterable[str]) -> beam_fn_api_pb2.InstructionRequest:
    """Asks a harness what short ids stand for."""
    return beam_fn_api_pb2.InstructionRequest(
        monitoring_infos=beam_fn_api_pb2.MonitoringInfosMetadataRequest(monitoring_info_id=ids)
    )
