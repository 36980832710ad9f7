"""The states of a job and the legal steps between them, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.errors import SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Mapping

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

# The state through which a job comes to its end.
_BEFORE: Final = {_S.DONE: _S.RUNNING, _S.DRAINED: _S.DRAINING, _S.CANCELLED: _S.CANCELLING}


class IllegalTransition(SparkDrainError):
    """A job was moved along a step that ``TRANSITIONS`` does not have; shows the job's history."""


def steps(now: int, to: int) -> tuple[int, ...]:
    """The states to enter, so that a job that is ``now`` here becomes what its driver says.

    Empty if there is nothing to do: the job is there, or further. A driver that is late does not
    call back a job that is being cancelled.
    """
    following = TRANSITIONS[now]
    if to in following:
        return (to,)
    before = _BEFORE.get(to)
    if before in following and to in TRANSITIONS[before]:
        return before, to
    return ()


def name(state: int) -> str:
    """The state's name in Beam's Job API."""
    return str(_S.Enum.Name(state))
