"""The jobs of a server in a metadata store, so that they survive a restart.

``JobStore`` has them all; the ``Journal`` of each writes down what happens to it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.coordination.metadata import MetadataError, pass_over
from sparkdrain.graph.check import is_streaming
from sparkdrain.jobs.messages import CAPACITY
from sparkdrain.v1.server_pb2 import StoredJob, StoredMessages, ToldMessages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.coordination.metadata import MetadataStore
    from sparkdrain.jobs.served import Submission

_LOGGER = logging.getLogger(__name__)

_HEADS: Final = "sparkdrain-server-jobs-v1"
_PARTS: Final = "sparkdrain-server-parts-v1"
_MOST_UNWRITTEN: Final = 100


@dataclass(frozen=True, slots=True)
class JobStore:
    """Heads and parts of jobs. Every call is durable when it returns. Thread-safe by job.

    All methods raise ``StoreDown`` if the store cannot be used now.
    """

    store: MetadataStore

    def heads(self) -> list[StoredJob]:
        """The heads of all jobs, the oldest first; a head that cannot be read is left out."""
        rows = self.store.all(_HEADS, pass_over).values()
        return sorted((StoredJob.FromString(row.value) for row in rows), key=_began)

    def write_head(self, head: StoredJob) -> None:
        """Write what the head tells; its parts are there."""
        self.store.put(_HEADS, head.job_id, head.SerializeToString())

    def write_submission(
        self, head: StoredJob, request: api.PrepareJobRequest, info: api.JobInfo
    ) -> None:
        """Write what the job is; the caller writes the head."""
        head.request_parts = self._write(head.job_id, "request", request.SerializeToString())
        head.info_parts = self._write(head.job_id, "info", info.SerializeToString())

    def write_metrics(self, head: StoredJob, metrics: api.MetricResults) -> None:
        """Write what the job has counted; the caller writes the head."""
        head.metrics_parts = self._write(head.job_id, "metrics", metrics.SerializeToString())

    def write_messages(
        self, head: StoredJob, told: Sequence[api.JobMessagesResponse], kept: int
    ) -> None:
        """Add messages, and drop the oldest beyond ``kept``; the caller writes the head."""
        number = head.messages[-1].number + 1 if head.messages else 0
        data = ToldMessages(responses=[each.SerializeToString() for each in told])
        parts = self._write(head.job_id, f"messages-{number}", data.SerializeToString())
        head.messages.append(StoredMessages(number=number, count=len(told), parts=parts))
        while sum(each.count for each in head.messages[1:]) >= kept:
            self._remove_messages(head, head.messages.pop(0))

    def request(self, head: StoredJob) -> api.PrepareJobRequest:
        """What the client has submitted."""
        data = self._read(head.job_id, "request", head.request_parts)
        return api.PrepareJobRequest.FromString(data)

    def info(self, head: StoredJob) -> api.JobInfo:
        """What the list of jobs shows, with the state as it is in the head."""
        info = api.JobInfo.FromString(self._read(head.job_id, "info", head.info_parts))
        info.state = api.JobStateEvent.FromString(head.states[-1]).state
        return info

    def metrics(self, head: StoredJob) -> api.MetricResults:
        """What the job had counted when it ended."""
        data = self._read(head.job_id, "metrics", head.metrics_parts)
        return api.MetricResults.FromString(data)

    def messages(self, head: StoredJob) -> list[api.JobMessagesResponse]:
        """The messages and states that are kept, oldest first."""
        return [
            api.JobMessagesResponse.FromString(response)
            for each in head.messages
            for response in ToldMessages.FromString(
                self._read(head.job_id, f"messages-{each.number}", each.parts)
            ).responses
        ]

    def remove(self, head: StoredJob) -> None:
        """Forget a job."""
        self.store.remove(_HEADS, head.job_id)
        for each in head.messages:
            self._remove_messages(head, each)
        self._remove(head.job_id, "request", head.request_parts)
        self._remove(head.job_id, "info", head.info_parts)
        self._remove(head.job_id, "metrics", head.metrics_parts)

    def _remove_messages(self, head: StoredJob, told: StoredMessages) -> None:
        self._remove(head.job_id, f"messages-{told.number}", told.parts)

    def _write(self, job_id: str, what: str, data: bytes) -> int:
        """Write a part of any size; releases before this one cut it into several."""
        self.store.put(_PARTS, _key(job_id, what, 0), data)
        return 1

    def _read(self, job_id: str, what: str, parts: int) -> bytes:
        read = (self.store.get(_PARTS, _key(job_id, what, part)) for part in range(parts))
        return b"".join(b"" if found is None else found.value for found in read)

    def _remove(self, job_id: str, what: str, parts: int) -> None:
        for part in range(parts):
            self.store.remove(_PARTS, _key(job_id, what, part))


def _key(job_id: str, what: str, part: int) -> str:
    return f"{job_id}/{what}/{part}"


def _began(head: StoredJob) -> tuple[int, str]:
    return api.JobStateEvent.FromString(head.states[0]).timestamp.ToNanoseconds(), head.job_id


class Journal:
    """The stored story of one job.

    A state is durable before a client can see it. Messages are written with the next state, with
    the hundredth message, or at ``flush``. A job that was only prepared is not stored. If the store
    is down while a job runs, the job goes on, and a warning says that a restart would lose it.
    Thread-safe.

    Args:
        store: where all jobs of the server are stored.
        head: the head of a job that is stored already; None: the job is new.
    """

    def __init__(self, store: JobStore, head: StoredJob | None = None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._is_open = head is not None
        self._unwritten: list[api.JobMessagesResponse] = []
        self.head = head or StoredJob()

    def open(self, submission: Submission) -> None:
        """Store a job that is about to start.

        Raises:
            StoreDown: the job could not be stored, and must not start.
        """
        has_checkpoints = bool(submission.settings.checkpoint_dir) and is_streaming(
            submission.pipeline, submission.settings
        )
        with self._lock:
            head = StoredJob(
                job_id=submission.job_id,
                name=submission.name,
                states=self.head.states,
                has_checkpoints=has_checkpoints,
            )
            info = submission.info(api.JobState.STOPPED)
            self._store.write_submission(head, submission.request(), info)
            self._store.write_messages(head, self._unwritten, CAPACITY)
            self._store.write_head(head)
            self.head, self._unwritten, self._is_open = head, [], True

    def take(self, entry: api.JobMessagesResponse) -> None:
        """Take a message or a state."""
        with self._lock:
            self._unwritten.append(entry)
            is_state = entry.HasField("state_response")
            if is_state:
                self.head.states.append(entry.state_response.SerializeToString())
            if is_state or len(self._unwritten) >= _MOST_UNWRITTEN:
                self._write()

    def flush(self) -> None:
        """Write the messages that are not written yet."""
        with self._lock:
            if self._unwritten:
                self._write()

    def tell_driven(self) -> None:
        """Write down that a driver process gets the job now."""
        with self._lock:
            self.head.was_driven = True
            self._write()

    def keep_metrics(self, metrics: api.MetricResults) -> None:
        """Take the last metrics of the job; they are durable with its last state."""
        with self._lock, self._warning():
            self._store.write_metrics(self.head, metrics)

    def _write(self) -> None:
        if not self._is_open:
            return
        with self._warning():
            if self._unwritten:
                self._store.write_messages(self.head, self._unwritten, CAPACITY)
                self._unwritten = []
            self._store.write_head(self.head)

    @contextlib.contextmanager
    def _warning(self) -> Iterator[None]:
        try:
            yield
        except MetadataError as error:
            _LOGGER.warning(
                "Job %s goes on, but a restart of the server would not know how: %s",
                self.head.job_id,
                error,
            )
