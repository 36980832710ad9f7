"""A job that has ended: only its head is in memory, all else is read when a client asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_job_api_pb2 as api
from typing_extensions import override

from sparkdrain.jobs.messages import now
from sparkdrain.jobs.served import DryRun, ServedJob
from sparkdrain.jobs.states import IllegalTransition, name
from sparkdrain.jobs.story import JobStory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.server.job_store import JobStore
    from sparkdrain.types import Artifact
    from sparkdrain.v1.server_pb2 import StoredJob


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
