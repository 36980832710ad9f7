"""What a Job service needs of its jobs, wherever they run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain import redaction
from sparkdrain.errors import SparkDrainError
from sparkdrain.jobs import described_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2, metrics_pb2
    from google.protobuf.struct_pb2 import Struct
    from typing_extensions import Self

    from sparkdrain.jobs.story import JobStory
    from sparkdrain.options import JobSettings
    from sparkdrain.types import Artifact


class NoSuchJob(SparkDrainError):
    """No job of that id is known here, or it was so long ago that it was forgotten."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a client asked for.

    Attributes:
        job_id: unique in this service.
        name: the client's name for it, for people.
        pipeline: as submitted, not optimized.
        described_options: the options as the client sent them.
        options: the same, by plain name.
        settings: our own options, checked.
        endpoint: the address of the service that the job was submitted to.
    """

    job_id: str
    name: str
    pipeline: beam_runner_api_pb2.Pipeline
    described_options: Struct = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    settings: JobSettings
    endpoint: str = ""

    @classmethod
    def of(cls, job_id: str, request: beam_job_api_pb2.PrepareJobRequest, endpoint: str) -> Self:
        """Read a request.

        Raises:
            BadOption: an option cannot be used.
        """
        options = described_options.plain(request.pipeline_options)
        redaction.remember(options)
        return cls(
            job_id,
            request.job_name or "job",
            request.pipeline,
            request.pipeline_options,
            options,
            described_options.settings(options),
            endpoint,
        )

    def request(self) -> beam_job_api_pb2.PrepareJobRequest:
        """The inverse of ``of``."""
        return beam_job_api_pb2.PrepareJobRequest(
            job_name=self.name,
            pipeline=self.pipeline,
            pipeline_options=self.described_options,
        )

    def info(self, state: int) -> beam_job_api_pb2.JobInfo:
        """What the list of jobs shows; no secret among the options."""
        return beam_job_api_pb2.JobInfo(
            job_id=self.job_id,
            job_name=self.name,
            pipeline_options=described_options.shown(self.described_options),
            state=state,
        )


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a drain of a job would find.

    Attributes:
        text: the answer in one line of ASCII, or why there is none.
        infos: the same as counters; empty if there is no answer.
    """

    text: str
    infos: Sequence[metrics_pb2.MonitoringInfo]


class ServedJob(Protocol):
    """One job of a service. Thread-safe."""

    @property
    def story(self) -> JobStory:
        """What has happened to the job, for clients to follow."""

    @property
    def info(self) -> beam_job_api_pb2.JobInfo:
        """What the list of jobs shows."""

    @property
    def state(self) -> beam_job_api_pb2.JobStateEvent:
        """The state now."""
        return self.story.state

    @property
    def is_running(self) -> bool:
        """Whether ``run`` was called and the job has not ended yet."""
        return self.story.is_running

    @property
    def pipeline(self) -> beam_runner_api_pb2.Pipeline:
        """The pipeline as it was submitted."""

    def run(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        """Start; returns at once.

        Args:
            collect: gives the staged files; called in the job's thread.
            clean_up: called in the job's thread when nothing reads those files any more.

        Raises:
            IllegalTransition: it was started or cancelled before.
            SparkDrainError: its metadata store or its run id cannot be used; see ``JobDrain``.
        """

    def cancel(self) -> None:
        """Ask the job to stop; does not wait. Does nothing if it is over."""

    def leave(self) -> None:
        """Ask the job to stop here; drivers that stand by go on with it. Else as ``cancel``."""
        self.cancel()

    def drain(self) -> None:
        """Ask the job to end with nothing left inside; does not wait. Does nothing if it is over.

        Raises:
            IllegalTransition: it has not been started.
            DrainDisabled: it was started with ``--drain=off``.
            StoreDown: the request could not be written down.
        """

    def dry_run(self, seconds: float) -> DryRun:
        """Answer what a drain would find, within that time; nothing is drained."""

    def metrics(self) -> beam_job_api_pb2.MetricResults:
        """Attempted and committed metrics, as far as they are known, and those of a drain."""


class ServedJobs(Protocol):
    """The jobs of a service, and who decides which can be submitted. Thread-safe."""

    def check(self, submission: Submission) -> None:
        """Return if a job could run here; nothing is started.

        Raises:
            SparkDrainError: see ``Engine.check``; or the name is in use.
        """

    def add(self, submission: Submission) -> Sequence[str]:
        """Make a job that has not been run; returns the ids of jobs that were forgotten for it."""

    def get(self, job_id: str) -> ServedJob:
        """The job of that id.

        Raises:
            NoSuchJob: it is not known (any more).
        """

    def all(self) -> Sequence[ServedJob]:
        """Every known job, oldest first."""


J = TypeVar("J", bound=ServedJob)


class Registry(Generic[J]):
    """Jobs by id. Running ones are always kept; of the others, the newest ``kept``. Thread-safe."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._jobs: dict[str, J] = {}

    def add(self, job_id: str, job: J) -> dict[str, J]:
        """Remember a job; returns those that were forgotten for it, by id."""
        with self._lock:
            self._jobs[job_id] = job
            idle = [known for known, each in self._jobs.items() if not each.is_running]
            return {old: self._jobs.pop(old) for old in idle[: max(0, len(idle) - self._kept)]}

    def replace(self, job_id: str, job: J) -> None:
        """Have another object stand for a known job."""
        with self._lock:
            if job_id in self._jobs:
                self._jobs[job_id] = job

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def get(self, job_id: str) -> J:
        """The job of that id.

        Raises:
            NoSuchJob: it is not known (any more).
        """
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            message = (
                f"There is no job {job_id!r} here: it was never prepared, this service was started "
                f"after it, or more than {self._kept} jobs came after it."
            )
            raise NoSuchJob(message)
        return job

    def all(self) -> list[J]:
        """Every known job, oldest first."""
        with self._lock:
            return list(self._jobs.values())
