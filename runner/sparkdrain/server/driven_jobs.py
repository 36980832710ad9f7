"""The jobs of the server: which can be submitted, which are known, which survive a restart."""

from __future__ import annotations

import enum
from functools import partial
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2 as api
from typing_extensions import override

from sparkdrain.errors import SparkDrainError
from sparkdrain.jobs import described_options
from sparkdrain.jobs.messages import now
from sparkdrain.jobs.served import DryRun, Registry, ServedJob, ServedJobs, Submission
from sparkdrain.jobs.states import TERMINAL, IllegalTransition, name
from sparkdrain.jobs.story import JobStory
from sparkdrain.server.admission import Admission, Names
from sparkdrain.server.driven_job import DrivenJob, Facilities
from sparkdrain.server.job_store import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from apache_beam.portability.api import beam_runner_api_pb2
    from google.protobuf.timestamp_pb2 import Timestamp

    from sparkdrain.jobs.artifacts import StagedFiles
    from sparkdrain.jobs.engine import Engine
    from sparkdrain.server.drivers import Drivers
    from sparkdrain.server.job_store import JobStore
    from sparkdrain.types import Artifact
    from sparkdrain.v1.server_pb2 import StoredJob

_S = api.JobState
_M = api.JobMessage

_ABANDONED_SECONDS: Final = 3600
"""After how many seconds a job that was prepared, and never run, is forgotten."""

_LOST: Final = (
    "The job service ended while this job ran, and the job's driver process ended with it. The job "
    "has no checkpoints to go on from, and how far it came is not known. Submit it again."
)


class Fate(enum.Enum):
    """What a server does with a stored job."""

    OVER = "The job had ended; its clients can ask how."
    WAITS = "No driver process had the job, so it waits again as if nothing had happened."
    GOES_ON = "The job is taken up from its newest checkpoint."
    CANCELLED = "The job was being cancelled, which is done now."
    LOST = "The job had no checkpoints, and its driver process ended with the server."


def fate(head: StoredJob) -> Fate:
    """What to do with the job of this head."""
    state = api.JobStateEvent.FromString(head.states[-1]).state
    if state in TERMINAL:
        return Fate.OVER
    if state == api.JobState.CANCELLING:
        return Fate.CANCELLED
    if not head.was_driven:
        return Fate.WAITS
    return Fate.GOES_ON if head.has_checkpoints else Fate.LOST


class EndedJob(ServedJob):
    """A job that has ended. It can still be asked for all that was stored of it.

    Args:
        store: where all jobs of the server are stored.
        head: the head of the job, whose last state is a terminal one.
    """

    def __init__(self, store: JobStore, head: StoredJob) -> None:
        self._store = store
        self.head = head

    @property
    @override
    def story(self) -> JobStory:
        return story_of(self._store, self.head)

    @property
    @override
    def info(self) -> api.JobInfo:
        return self._store.info(self.head)

    @property
    @override
    def state(self) -> api.JobStateEvent:
        return api.JobStateEvent.FromString(self.head.states[-1])

    @property
    @override
    def is_running(self) -> bool:
        return False

    @property
    @override
    def pipeline(self) -> beam_runner_api_pb2.Pipeline:
        return self._store.request(self.head).pipeline

    @override
    def run(
        self, collect: Callable[[], Sequence[Artifact]], clean_up: Callable[[], object]
    ) -> None:
        message = f"Job {self.head.job_id!r} was run, and ended as {name(self.state.state)}."
        raise IllegalTransition(message)

    @override
    def cancel(self) -> None:
        """The job is over."""

    @override
    def drain(self) -> None:
        """The job is over."""

    @override
    def dry_run(self, seconds: float) -> DryRun:
        return DryRun("The job has ended, so there is nothing inside.", ())

    @override
    def metrics(self) -> api.MetricResults:
        return self._store.metrics(self.head)


def story_of(
    store: JobStore,
    head: StoredJob,
    record: Callable[[api.JobMessagesResponse], object] | None = None,
) -> JobStory:
    """The story of a stored job; ``record`` takes what follows."""
    states = [api.JobStateEvent.FromString(each) for each in head.states]
    return JobStory(now, record, states, store.messages(head))


class DrivenJobs(ServedJobs):
    """The jobs of a server: those that wait or run, and the newest of those that have ended.

    Args:
        engine: checks pipelines; runs none.
        store: where jobs that were run are stored.
        artifacts: the files that clients stage.
        files: the folder of these files.
        drivers: hands out driver processes.
        most: how many jobs run at a time.
        kept: how many jobs stay known that do not run.
        clock: tells the time now.
    """

    def __init__(
        self,
        engine: Engine,
        store: JobStore,
        artifacts: StagedFiles,
        files: Path,
        drivers: Drivers,
        most: int,
        kept: int,
        clock: Callable[[], Timestamp] = now,
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._artifacts = artifacts
        self._jobs = Registry[ServedJob](kept)
        self._facilities = Facilities(Admission(most), drivers, Names(), files, self._ended)

    @override
    def check(self, submission: Submission) -> None:
        self._facilities.names.check(submission.name)
        self._engine.check(submission.pipeline, submission.settings)

    @override
    def add(self, submission: Submission) -> list[str]:
        journal = Journal(self._store)
        story = JobStory(self._clock, journal.take)
        job = DrivenJob(submission, self._facilities, journal, story)
        return self._add(submission.job_id, job)

    @override
    def get(self, job_id: str) -> ServedJob:
        return self._jobs.get(job_id)

    @override
    def all(self) -> list[ServedJob]:
        return self._jobs.all()

    def restore(self, endpoint: str) -> None:
        """Know the stored jobs again, and take up those that go on; clients see ``endpoint``."""
        heads = self._store.heads()
        # What ran runs again, before what waited.
        for head in sorted(heads, key=lambda head: fate(head) is Fate.WAITS):
            try:
                self._restore(head, endpoint)
            except SparkDrainError as error:
                self._end(head, _S.FAILED, f"The job cannot be taken up: {error}")

    def tick(self) -> None:
        """Write down what was told meanwhile, forget what was never run, look at the spare."""
        self._facilities.drivers.watch()
        for job in self._jobs.all():
            if isinstance(job, DrivenJob):
                job.journal.flush()
                age = self._clock().seconds - job.state.timestamp.seconds
                if job.state.state == _S.STOPPED and age > _ABANDONED_SECONDS:
                    self._jobs.remove(job.submission.job_id)
                    self._artifacts.forget(job.submission.job_id)

    def leave(self) -> None:
        """Leave jobs that a server to come can take up, and cancel the others; does not wait."""
        for job in self._jobs.all():
            if isinstance(job, DrivenJob) and job.is_running:
                if fate(job.journal.head) in {Fate.WAITS, Fate.GOES_ON}:
                    job.leave()
                else:
                    text = "The job service was told to stop, so the job is cancelled."
                    job.story.messages.message(_M.JOB_MESSAGE_WARNING, text)
                    job.cancel()

    def _add(self, job_id: str, job: ServedJob) -> list[str]:
        forgotten = self._jobs.add(job_id, job)
        for each in forgotten.values():
            if isinstance(each, EndedJob):
                self._store.remove(each.head)
        return list(forgotten)

    def _ended(self, job: DrivenJob) -> None:
        """Keep no more than the head of a job that has ended in memory."""
        self._jobs.replace(job.submission.job_id, EndedJob(self._store, job.journal.head))

    def _restore(self, head: StoredJob, endpoint: str) -> None:
        match fate(head):
            case Fate.OVER:
                self._add(head.job_id, EndedJob(self._store, head))
            case Fate.LOST:
                self._end(head, _S.FAILED, _LOST)
            case Fate.CANCELLED:
                self._end(head, _S.CANCELLED, "")
            case Fate.WAITS:
                self._take_up(head, endpoint, resumes=False)
            case Fate.GOES_ON:
                self._take_up(head, endpoint, resumes=True)

    def _take_up(self, head: StoredJob, endpoint: str, *, resumes: bool) -> None:
        request = self._store.request(head)
        options = request.pipeline_options
        if resumes and not described_options.plain(options).get("resume"):
            options["beam:option:resume:v1"] = True
        submission = Submission.of(head.job_id, request, endpoint)
        journal = Journal(self._store, head)
        story = story_of(self._store, head, journal.take)
        job = DrivenJob(submission, self._facilities, journal, story)
        if resumes:
            text = "The job service was restarted. The job goes on from its newest checkpoint."
            job.story.messages.message(_M.JOB_MESSAGE_WARNING, text)
        self._add(head.job_id, job)
        job.take_up(partial(self._artifacts.forget, head.job_id))

    def _end(self, head: StoredJob, state: int, why: str) -> None:
        journal = Journal(self._store, head)
        story = story_of(self._store, head, journal.take)
        if why:
            story.messages.failed("DriverLost", why)
        story.move(state)
        self._artifacts.forget(head.job_id)
        self._add(head.job_id, EndedJob(self._store, journal.head))
