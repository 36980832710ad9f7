"""Writes down what happens to one job, as it happens."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.coordination.metadata import MetadataError
from sparkdrain.graph.mode import is_streaming
from sparkdrain.jobs.messages import CAPACITY
from sparkdrain.v1.server_pb2 import StoredJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.jobs.served import Submission
    from sparkdrain.server.job_store import JobStore

_LOGGER = logging.getLogger(__name__)

_MOST_UNWRITTEN: Final = 100


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
