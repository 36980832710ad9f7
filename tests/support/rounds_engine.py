"""An engine that runs every job in rounds, in this process: all that a user meets but Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.api import metrics_pb2

from sparkdrain.graph.check import check
from sparkdrain.graph.translate import translate
from sparkdrain.metrics.merge import merge
from sparkdrain.stages.execute import Outcome
from sparkdrain.stages.failure import failure_of
from sparkdrain.stages.spark_error import of_failure
from tests.support.in_memory_rounds import InMemoryRounds

if TYPE_CHECKING:
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.types import CancelToken


class RoundsEngine:
    """See ``sparkdrain.jobs.engine.Engine``; ``how`` is for ``InMemoryRounds``."""

    def __init__(self, **how: Any) -> None:
        self._how = how

    def head_start(self, settings: Any) -> None:
        pass

    def check(self, pipeline: Any, settings: Any) -> None:
        check(pipeline, streaming=True)

    def execute(
        self,
        pipeline: Any,
        settings: Any,
        *,
        cancel: CancelToken,
        drain: DrainSignal,
        **others: Any,
    ) -> Outcome:
        del settings, others
        rounds = InMemoryRounds(translate(pipeline, streaming=True), **self._how)
        rounds.loop.cancel = cancel
        rounds.loop.drain.signal = drain
        try:
            try:
                rounds.run_to_end()
            finally:
                rounds.close()
        except Exception as error:  # noqa: BLE001 - as a task would tell it
            raise of_failure(failure_of(error, 0, 0, "this machine")) from None
        infos = merge(
            metrics_pb2.MonitoringInfo.FromString(info)
            for report in rounds.schedule.reports()
            for info in report.metrics
        )
        return Outcome(infos, infos, drained=rounds.schedule.is_drained())
