"""What has happened to one job: its states and messages, and whether it is over."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.jobs.messages import MessageFeed, Messages
from sparkdrain.jobs.states import TERMINAL, TRANSITIONS, IllegalTransition, name, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

    from sparkdrain.types import CancelToken

_S = beam_job_api_pb2.JobState

# More than any legal path through the states has.
_MOST_STATES: Final = 16


class JobStory:
    """States and messages of one job, as its clients follow them. Thread-safe.

    Every state follows legally from the one before it, and nothing follows a terminal state. Both
    streams end after, and only after, the job has entered a terminal state.

    Attributes:
        lock: held while the state changes; callers hold the lock to decide on a change.
        messages: messages and states, in the order in which they came.
    """

    def __init__(
        self,
        clock: Callable[[], Timestamp],
        record: Callable[[beam_job_api_pb2.JobMessagesResponse], object] | None = None,
        states: Sequence[beam_job_api_pb2.JobStateEvent] = (),
        told: Sequence[beam_job_api_pb2.JobMessagesResponse] = (),
    ) -> None:
        """Begin a story with the state STOPPED, or go on with one.

        Args:
            clock: the time now.
            record: takes every message and state before clients can see it.
            states: all that were recorded in another life of the service, oldest first.
            told: messages and states that are kept of it, oldest first.
        """
        self.lock = threading.RLock()
        self.messages = Messages(clock, record=record, so_far=told)
        self.states = MessageFeed[beam_job_api_pb2.JobStateEvent](_MOST_STATES)
        self._finished = threading.Event()
        self._clock = clock
        self._history = list(states)
        for event in states:
            self.states.append(event)
        if not states:
            self._enter(_S.STOPPED)
        elif self.state.state in TERMINAL:
            self._close()

    @property
    def state(self) -> beam_job_api_pb2.JobStateEvent:
        """The state now."""
        return self._history[-1]

    @property
    def is_running(self) -> bool:
        """Whether the job was started and has not ended yet."""
        return self.state.state not in TERMINAL | {_S.STOPPED}

    def wait(self, seconds: float | None = None) -> bool:
        """Block until the job is over, or for that long; whether it is over."""
        return self._finished.wait(seconds)

    def move(self, to: int) -> None:
        """Enter a state, and tell clients; nothing follows a terminal one.

        Raises:
            IllegalTransition: the state does not follow from the present one.
        """
        with self.lock:
            if to not in TRANSITIONS[self.state.state]:
                path = " -> ".join(name(event.state) for event in self._history)
                message = f"A job cannot become {name(to)} after {path}."
                raise IllegalTransition(message)
            self._enter(to)
            if to in TERMINAL:
                self._close()

    def follow(self, to: int) -> None:
        """Enter the state that the job has elsewhere, through the one on its way; see ``steps``."""
        with self.lock:
            for step in steps(self.state.state, to):
                self.move(step)

    def cancel(self, token: CancelToken) -> None:
        """Cancel a job that runs, by its token; one that was not started is over at once."""
        with self.lock:
            if self.state.state == _S.STOPPED:
                self.move(_S.CANCELLED)
                return
            if not self.is_running or token.is_cancelled():
                return
            self.move(_S.CANCELLING)
        token.cancel()

    def _close(self) -> None:
        self.states.close()
        self.messages.close()
        self._finished.set()

    def _enter(self, state: int) -> None:
        event = beam_job_api_pb2.JobStateEvent(state=state, timestamp=self._clock())
        self._history.append(event)
        self.messages.state(event)
        self.states.append(event)
