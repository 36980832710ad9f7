"""What becomes of a stored job when a server starts: pure decisions."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_job_api_pb2 as api

from sparkdrain.jobs.states import TERMINAL

if TYPE_CHECKING:
    from sparkdrain.v1.server_pb2 import StoredJob


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
