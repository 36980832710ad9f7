"""The metrics of a stage in an SDK harness: those of its bundles, and those of the process.

A harness names them by short ids of its own.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_fn_api_pb2

from sparkdrain import file_lock
from sparkdrain.fnapi.short_ids import Answer, asking, latest
from sparkdrain.graph.beam import common_urns
from sparkdrain.metrics.merge import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.fnapi.worker import SdkWorker

_LOGGER = logging.getLogger(__name__)
_OF_PROCESS: Final[str] = common_urns.protocols.HARNESS_MONITORING_INFOS.urn
# How long a slot waits for the names of metrics.
_ANSWER_SECONDS: Final = 60.0
# No bundle is processed meanwhile, but the slot waits.
_PROCESS_SECONDS: Final = 5.0
# Each of the other slots asks the same process at most once meanwhile.
_LOCK_SECONDS: Final = 60.0


class StageMetrics:
    """What a harness tells of a stage.

    Args:
        capabilities: what the SDK of the harness can do, as URNs.
    """

    def __init__(self, worker: SdkWorker, capabilities: frozenset[str]) -> None:
        self._worker = worker
        self._tells_of_process = _OF_PROCESS in capabilities
        self._together = Tally()
        # What the bundle has told before its end.
        self._progress: Answer | None = None
        self._has_ended_bundles = False

    def progressed(self, answer: Answer) -> None:
        """Take in what a bundle tells before its end."""
        self._progress = latest(self._progress, answer)

    def so_far(self, last: Answer) -> list[metrics_pb2.MonitoringInfo]:
        """What a bundle has told, with its last answer, or an empty one if that is yet to come."""
        told = latest(self._progress, last)
        self._learn_names(told)
        return self._worker.short_ids.infos(told)

    def beside(self, answer: Answer, seconds: float) -> list[metrics_pb2.MonitoringInfo]:
        """What an answer tells that came beside the bundle; from any thread.

        Args:
            seconds: how long to wait at most for names. Metrics without one are left out.
        """
        ids = self._worker.short_ids
        if unknown := ids.unknown(answer):
            explained = self._worker.ask(asking(unknown), seconds)
            if explained is not None:
                ids.learn(answer, explained)
        return ids.infos(answer)

    def count(self, last: Answer) -> None:
        """Count what a bundle has told until its last answer."""
        told = latest(self._progress, last)
        self._learn_names(told)
        for metric in self._worker.short_ids.metrics(told):
            self._together.take(*metric)
        self._has_ended_bundles = True

    def forget(self) -> None:
        """The next bundle has told nothing yet."""
        self._progress = None

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """All that was counted. The process is asked for its own metrics, if it may have some."""
        if self._has_ended_bundles and self._tells_of_process:
            self._has_ended_bundles = False
            for info in self._of_process():
                self._together.add(info)
        return self._together.infos()

    def _learn_names(self, answer: Answer) -> None:
        """Ask what metrics an answer has, if it names some for the first time."""
        ids = self._worker.short_ids
        if unknown := ids.unknown(answer):
            ids.learn(answer, self._worker.ask_amid_bundle(asking(unknown), _ANSWER_SECONDS))

    def _of_process(self) -> list[metrics_pb2.MonitoringInfo]:
        """What the process has counted for itself since any slot has asked it.

        It is left for the next question if the harness does not answer.
        """
        file = self._worker.life.told
        if file is None:
            return []
        try:
            return _news(file, self._ask_process)
        except OSError as error:
            _LOGGER.warning("What a harness counts for its process is asked for later: %s", error)
            return []

    def _ask_process(self) -> list[metrics_pb2.MonitoringInfo]:
        """All that the process has counted since its start."""
        request = beam_fn_api_pb2.InstructionRequest(harness_monitoring_infos={})
        answered = self._worker.ask(request, _PROCESS_SECONDS)
        if answered is None:
            return []
        # It has the parts of an answer of a bundle.
        answer = beam_fn_api_pb2.ProcessBundleProgressResponse(
            monitoring_data=answered.harness_monitoring_infos.monitoring_data
        )
        return self.beside(answer, _PROCESS_SECONDS)


def _news(
    file: Path, ask: Callable[[], list[metrics_pb2.MonitoringInfo]]
) -> list[metrics_pb2.MonitoringInfo]:
    """What a process has counted since it was asked last.

    Args:
        file: has what was told. Others wait while one asks, so nothing is told twice.
        ask: gives the metrics as they are.
    """
    lock = file_lock.open_locked(file, _LOCK_SECONDS)
    try:
        told = Tally()
        known = beam_fn_api_pb2.ProcessBundleProgressResponse.FromString(file.read_bytes())
        for info in known.monitoring_infos:
            told.add(info)
        news = told.added(ask())
        if news:
            for info in news:
                told.add(info)
            # A slot that is killed here leaves the file as it was, or as it is to be.
            after = file.with_name(f"{file.name}-{os.getpid()}")
            after.write_bytes(
                beam_fn_api_pb2.ProcessBundleProgressResponse(
                    monitoring_infos=told.infos()
                ).SerializeToString()
            )
            after.replace(file)
        return news
    finally:
        os.close(lock)
