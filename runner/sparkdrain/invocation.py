"""The seam between jobs and engines: a job that is to be executed, who hears of it, what it leaves.

"Invocation" is Beam's word for a job that was prepared and then run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.standby.leadership import Alone, Leadership

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2, metrics_pb2

    from sparkdrain.drain.progress import DrainProgress
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.options import JobSettings
    from sparkdrain.types import Artifact, CancelToken


_M = beam_job_api_pb2.JobMessage

_IMPORTANCE: Final = (
    (logging.ERROR, _M.JOB_MESSAGE_ERROR),
    (logging.WARNING, _M.JOB_MESSAGE_WARNING),
    (logging.INFO, _M.JOB_MESSAGE_BASIC),
    (logging.NOTSET, _M.JOB_MESSAGE_DEBUG),
)


def importance_of(level: int) -> int:
    """The Job API's importance for a level of ``logging``."""
    return next(importance for lowest, importance in _IMPORTANCE if level >= lowest)


class Observer(Protocol):
    """A listener that hears how a job goes."""

    def began(self, epoch: int) -> None:
        """Take that nothing refuses the job any more, and that it has read nothing yet.

        An engine calls this once before it reads anything, and again each time it takes the job's
        checkpoints anew. Once this has returned, ``Invocation.drain`` knows of a request that came
        before.

        Args:
            epoch: number of the claim on the job's checkpoints; 0 if it makes none.

        Raises:
            SparkDrainError: the job must not begin, or go on.
        """

    def message(self, importance: int, text: str) -> None:
        """Take a message; ``importance`` is ``JobMessage.MessageImportance``."""

    def counted(self, outcome: Outcome) -> None:
        """Take the metrics of a job that goes on."""

    def counting(self, attempted: Callable[[], Sequence[metrics_pb2.MonitoringInfo]]) -> None:
        """Take what tells the metrics of all that a batch job has tried so far.

        Args:
            attempted: may be called at any time, from any thread, also after the job has ended.
        """

    def draining(self, progress: DrainProgress) -> None:
        """Take how far the drain of the job has come."""

    def moved(self, text: str) -> None:
        """Take which slots have moved to other executors, why, and how long that took."""


class Unobserved(Observer):
    """The observer of a job that no client waits for; does nothing with what it hears."""

    def _ignore(self, *told: object, **more: object) -> None:
        pass

    began = message = counted = counting = draining = moved = _ignore


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a job that ended well, or what counts so far of one that goes on.

    Attributes:
        attempted: metrics over everything that was tried.
        committed: metrics over what counts.
        drained: whether the job ended because it was drained: its sources were cut.
    """

    attempted: Sequence[metrics_pb2.MonitoringInfo] = ()
    committed: Sequence[metrics_pb2.MonitoringInfo] = ()
    drained: bool = False


@dataclass(frozen=True, slots=True)
class Invocation:
    """One job, as an engine gets it.

    Attributes:
        job_id: unique in the service that the job was submitted to.
        job_name: the client's name for it, for people; checkpoints go by it, too.
        pipeline: as submitted, not optimized.
        settings: our own options, checked.
        pipeline_options: all options, by plain name, for user code.
        artifacts: the files that the client staged.
        cancel: tells that the job is cancelled.
        drain: tells that the job is to end with nothing left inside; it may do so before the start.
        directory: the current directory of the process that runs the job, as it was when the
            pipeline was run; empty if that is gone.
        leadership: which of several drivers runs the job.
        held: the highest epoch under which a run has held the job's checkpoints, as the metadata
            store knew before the start; 0 if it knew of none.
    """

    job_id: str
    job_name: str
    pipeline: beam_runner_api_pb2.Pipeline
    settings: JobSettings
    pipeline_options: Mapping[str, Any] = field(repr=False)
    artifacts: Sequence[Artifact]
    observer: Observer
    cancel: CancelToken
    drain: DrainSignal
    directory: str = ""
    leadership: Leadership = field(default_factory=Alone)
    held: int = 0
