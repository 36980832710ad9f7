"""The states of a job and the legal steps between them, as data."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

_S = beam_job_api_pb2.JobState

# A job that was told to drain before it began is never RUNNING. A batch job that is drained reads
# everything, so it ends as DONE. A driver that waits is STARTING until the one that leads is DONE.
# A cancelled job may still end in another way: it was over before the request reached it.
TRANSITIONS: Final[Mapping[int, frozenset[int]]] = {
    _S.STOPPED: frozenset({_S.STARTING, _S.CANCELLED}),
    _S.STARTING: frozenset({_S.RUNNING, _S.DRAINING, _S.DONE, _S.FAILED, _S.CANCELLING}),
    _S.RUNNING: frozenset({_S.DRAINING, _S.DONE, _S.FAILED, _S.CANCELLING}),
    _S.DRAINING: frozenset({_S.DRAINED, _S.DONE, _S.FAILED, _S.CANCELLING}),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.DONE, _S.DRAINED, _S.FAILED}),
    _S.DONE: frozenset(),
    _S.DRAINED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}

TERMINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)


class IllegalTransition(SparkDrainError):
    """A job was moved along a step that ``TRANSITIONS`` does not have; shows the job's history."""


class JobStates:
    """The history of one job; its last entry is the current state. Thread-safe.

    Every state in the history follows legally from the one before it, and nothing follows a
    terminal state.
    """

    def __init__(
        self,
        clock: Callable[[], Timestamp],
        history: Sequence[beam_job_api_pb2.JobStateEvent] = (),
    ) -> None:
        """Begin with the state STOPPED, or go on from a history."""
        self._clock = clock
        self._lock = threading.Lock()
        self._history = list(history) or [self._event(_S.STOPPED)]

    @property
    def current(self) -> beam_job_api_pb2.JobStateEvent:
        """The state now, with the time at which it was entered."""
        return self._history[-1]

    @property
    def history(self) -> tuple[beam_job_api_pb2.JobStateEvent, ...]:
        """All states so far, oldest first."""
        with self._lock:
            return tuple(self._history)

    def move(self, to: int) -> beam_job_api_pb2.JobStateEvent:
        """Enter ``to`` and return the event.

        Raises:
            IllegalTransition: ``to`` does not follow from the current state.
        """
        with self._lock:
            if to not in TRANSITIONS[self._history[-1].state]:
                raise IllegalTransition(self._refusal(to))
            event = self._event(to)
            self._history.append(event)
            return event

    def _event(self, state: int) -> beam_job_api_pb2.JobStateEvent:
        return beam_job_api_pb2.JobStateEvent(state=state, timestamp=self._clock())

    def _refusal(self, to: int) -> str:
        path = " -> ".join(name(event.state) for event in self._history)
        return f"A job cannot become {name(to)} after {path}."


def name(state: int) -> str:
    """The state's name in Beam's Job API."""
    return str(_S.Enum.Name(state))
