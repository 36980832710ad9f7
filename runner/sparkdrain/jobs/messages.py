"""What a job tells its clients: messages and state changes, in one bounded stream."""

from __future__ import annotations

import itertools
import logging
import threading
import uuid
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from sparkdrain.invocation import importance_of
from sparkdrain.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
Message = beam_job_api_pb2.JobMessage

CAPACITY: Final = 1000
LONGEST_TEXT: Final = 256 * 1024

# The Job API has no field for where a message comes from; its id is free text, so the id says it.
_PROCESS: Final = uuid.uuid4().hex
_FROM_LOG: Final = f"log-{_PROCESS}"
_FAILURE: Final = "failure-"
_ELSEWHERE: Final = "ended-elsewhere"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Stands in a reader's stream for entries that were dropped before it came to them."""

    count: int


class MessageFeed(Generic[T]):
    """Keeps the last ``capacity`` entries; memory does not grow with readers or with time.

    A reader sees all entries in order, from the oldest one kept; one that is too slow sees
    ``Skipped`` where it missed some. A writer never waits. Thread-safe.
    """

    def __init__(self, capacity: int) -> None:
        self._changed = threading.Condition()
        self._entries: deque[T] = deque(maxlen=capacity)
        self._count = 0
        self._closed = False

    def append(self, entry: T) -> None:
        """Add an entry; ignored once the feed is closed."""
        with self._changed:
            if not self._closed:
                self._entries.append(entry)
                self._count += 1
                self._changed.notify_all()

    def close(self) -> None:
        """End the stream of every reader after what it has not seen yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Let waiting readers look again at whether they are wanted."""
        with self._changed:
            self._changed.notify_all()

    def follow(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[T | Skipped]:
        """Entries from the oldest kept one on, waiting for new ones until the feed is closed.

        Args:
            is_wanted: asked after every wait; False ends the stream (call ``wake`` after that).
        """
        position, closed = 0, False
        while not closed:
            with self._changed:
                while position == self._count and not self._closed and is_wanted():
                    self._changed.wait()
                oldest = self._count - len(self._entries)
                missed = max(0, oldest - position)
                batch = list(itertools.islice(self._entries, max(0, position - oldest), None))
                position, closed = self._count, self._closed or not is_wanted()
            if missed:
                yield Skipped(missed)
            yield from batch


def now() -> Timestamp:
    """The time now, as Beam's messages have it."""
    time = Timestamp()
    time.GetCurrentTime()
    return time


class Messages:
    """The message stream of one job. Thread-safe."""

    def __init__(
        self,
        clock: Callable[[], Timestamp],
        capacity: int = CAPACITY,
        record: Callable[[beam_job_api_pb2.JobMessagesResponse], object] | None = None,
        so_far: Iterable[beam_job_api_pb2.JobMessagesResponse] = (),
    ) -> None:
        """Begin a stream.

        Args:
            clock: the time now.
            capacity: how many of the newest entries are kept.
            record: takes every entry before clients can see it.
            so_far: entries that were recorded before.
        """
        self._clock = clock
        self._record = record
        self._feed = MessageFeed[beam_job_api_pb2.JobMessagesResponse](capacity)
        self._numbers = itertools.count(1)
        for entry in so_far:
            self._feed.append(entry)

    def message(self, importance: int, text: str) -> None:
        """Tell every client something; ``importance`` is ``JobMessage.MessageImportance``."""
        self._add(importance, text, "")

    def logged(self, importance: int, text: str) -> None:
        """Pass on a log record of this process; a client in this process has it in its log."""
        self._add(importance, text, _FROM_LOG)

    def failed(self, kind: str, text: str) -> None:
        """Say why the job failed; ``kind`` is the name of the type of the failure."""
        self._add(Message.JOB_MESSAGE_ERROR, text, _FAILURE + kind)

    def ended_elsewhere(self, text: str) -> None:
        """Say that the job has ended well, or was cancelled, under another driver."""
        self._add(Message.JOB_MESSAGE_BASIC, text, _ELSEWHERE)

    def state(self, event: beam_job_api_pb2.JobStateEvent) -> None:
        """Tell every client the new state."""
        self.relay(beam_job_api_pb2.JobMessagesResponse(state_response=event))

    def relay(self, entry: beam_job_api_pb2.JobMessagesResponse) -> None:
        """Tell every client what another service has told of the job."""
        if self._record is not None:
            self._record(entry)
        self._feed.append(entry)

    def close(self) -> None:
        """Nothing follows."""
        self._feed.close()

    def wake(self) -> None:
        """Let waiting readers look again at whether they are wanted."""
        self._feed.wake()

    def follow(
        self, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[beam_job_api_pb2.JobMessagesResponse]:
        """All kept messages, then new ones until the job has ended."""
        for entry in self._feed.follow(is_wanted):
            match entry:
                case Skipped(count=count):
                    text = f"{count} earlier messages of this job are no longer kept."
                    yield self._response(Message.JOB_MESSAGE_DETAILED, text, "")
                case _:
                    yield entry

    def _add(self, importance: int, text: str, origin: str) -> None:
        self.relay(self._response(importance, text, origin))

    def _response(
        self, importance: int, text: str, origin: str
    ) -> beam_job_api_pb2.JobMessagesResponse:
        message = Message(
            message_id=f"{next(self._numbers)} {origin}".rstrip(),
            time=self._clock().ToJsonString(),
            importance=importance,
            message_text=readable(shortened(redact(text))),
        )
        return beam_job_api_pb2.JobMessagesResponse(message_response=message)


class JobLogs(logging.Handler):
    """While entered, forwards the log records of one job's threads.

    Jobs run in the same process, so a record belongs to a job if its thread does: the thread's name
    is the job's thread name, or starts with it and a slash (name helper threads like that).
    """

    def __init__(self, messages: Messages, thread_name: str) -> None:
        super().__init__()
        self._messages = messages
        self._thread_name = thread_name
        self.setFormatter(logging.Formatter("%(message)s"))

    def __enter__(self) -> JobLogs:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger().removeHandler(self)
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Forward the record if one of the job's threads made it."""
        thread = record.threadName or ""
        if thread == self._thread_name or thread.startswith(f"{self._thread_name}/"):
            try:
                self._messages.logged(importance_of(record.levelno), self.format(record))
            except Exception:  # noqa: BLE001 - user code that logs must not fail for it
                self.handleError(record)


def is_own_log_record(message: beam_job_api_pb2.JobMessage) -> bool:
    """Whether the message is a log record that this very process has logged already."""
    return bool(message.message_id.endswith(_FROM_LOG))


def failure_kind(message: beam_job_api_pb2.JobMessage) -> str | None:
    """The name of the type of the failure, if this message says why the job failed."""
    _, separator, kind = message.message_id.partition(f" {_FAILURE}")
    return kind if separator else None


def is_end_elsewhere(message: beam_job_api_pb2.JobMessage) -> bool:
    """Whether the message says that another driver has brought the job to its end."""
    return bool(message.message_id.endswith(f" {_ELSEWHERE}"))


def readable(text: str) -> str:
    """``text``, with halves of characters written out: the Job API's encoding has none."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """``text``, without its middle if it is too long for one message."""
    if len(text) <= longest:
        return text
    half = longest // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
