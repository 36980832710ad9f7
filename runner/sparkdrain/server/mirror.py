"""How the state of a job in its driver becomes the state that clients of the server see."""

from __future__ import annotations

from typing import Final

from apache_beam.portability.api import beam_job_api_pb2

from sparkdrain.jobs.states import TRANSITIONS

_S = beam_job_api_pb2.JobState

# The state through which a job comes to its end.
_BEFORE: Final = {_S.DONE: _S.RUNNING, _S.DRAINED: _S.DRAINING, _S.CANCELLED: _S.CANCELLING}


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
