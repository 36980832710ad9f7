"""An engine that runs every job in rounds, in this process: all that a user meets but Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import HarnessJob, harnesses
from sparkdrain.graph.check import check
from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.translate import translate
from sparkdrain.invocation import Outcome
from sparkdrain.stages.telling.failure import failure_of
from sparkdrain.stages.telling.spark_error import of_failure
from tests.support.in_memory_rounds import InMemoryRounds

if TYPE_CHECKING:
    from sparkdrain.invocation import Invocation


class RoundsEngine:
    """See ``sparkdrain.jobs.engine.Engine``; ``how`` is for ``InMemoryRounds``."""

    def __init__(self, **how: Any) -> None:
        self._how = how

    def head_start(self, settings: Any) -> None:
        pass

    def check(self, pipeline: Any, settings: Any) -> None:
        check(pipeline, streaming=True)

    def execute(self, invocation: Invocation) -> Outcome:
        written = as_written(invocation.pipeline, invocation.pipeline_options)
        outside = Outside(HarnessJob(invocation.job_id, invocation.pipeline_options), harnesses())
        rounds = InMemoryRounds(translate(written, streaming=True), outside=outside, **self._how)
        rounds.loop.cancel = invocation.cancel
        rounds.loop.drain.signal = invocation.drain
        invocation.observer.began(0)
        try:
            try:
                rounds.run_to_end()
            finally:
                rounds.close()
        except Exception as error:  # noqa: BLE001 - as a task would tell it
            raise of_failure(failure_of(error, 0, 0, "this machine")) from None
        infos = rounds.schedule.metrics()
        return Outcome(infos, infos, drained=rounds.schedule.is_drained())
