"""Jobs that run in this process, behind an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from typing_extensions import override

from sparkdrain.jobs.job import Job
from sparkdrain.jobs.registry import Registry
from sparkdrain.jobs.served import ServedJobs

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.jobs.engine import Engine
    from sparkdrain.jobs.served import Submission
    from sparkdrain.options import JobSettings


class LocalJobs(ServedJobs):
    """See ``ServedJobs``. Any number of jobs may have one name.

    Args:
        kept: how many jobs stay known that do not run.
    """

    def __init__(self, engine: Engine, kept: int) -> None:
        self._engine = engine
        self._jobs = Registry[Job](kept)

    @override
    def check(
        self, name: str, pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings
    ) -> None:
        self._engine.check(pipeline, settings)

    @override
    def add(self, submission: Submission) -> list[str]:
        return list(self._jobs.add(submission.job_id, Job(submission, self._engine, now)))

    @override
    def get(self, job_id: str) -> Job:
        return self._jobs.get(job_id)

    @override
    def all(self) -> list[Job]:
        return self._jobs.all()


def now() -> Timestamp:
    """The time now, as Beam's messages have it."""
    time = Timestamp()
    time.GetCurrentTime()
    return time
