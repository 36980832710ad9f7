"""A checkpoint on its way: its states, the legal steps between them, and what it has so far. Pure.

The diagram in docs/checkpoints.md is made from ``STEPS``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sparkdrain.errors import CheckpointFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.checkpoints.upload import Uploaded
    from sparkdrain.drain.notification import DrainNotification
    from sparkdrain.drain.phases import DrainPhase
    from sparkdrain.rounds.driver.schedule import LevelSlot
    from sparkdrain.rounds.messages import RoundReport

# An upload that takes longer than this many intervals, and than ten minutes, is given up.
_PATIENCE_INTERVALS: Final = 10
_PATIENCE: Final = 600_000_000


class FlightState(enum.Enum):
    """How far the checkpoint on its way is."""

    IDLE = "No checkpoint is on its way."
    ORDERED = "The next round tells every slot to begin the checkpoint."
    UPLOADING = "Slots upload their state while rounds go on."
    PUBLISHING = "The manifest is being written while rounds go on."
    TELLING = "The checkpoint has everything. The outside is told, and waited for."
    CLOSING = "The manifest that says that the job is over is being written."
    OVER = "The job is over, and its last manifest says so."


class FlightEvent(enum.Enum):
    """What happens to the checkpoint on its way."""

    BEGUN = "a checkpoint is due"
    ORDER_COMMITTED = "the round that told all slots is committed"
    ALL_UPLOADED = "the last slot has uploaded its state"
    PUBLISHED = "the manifest is there"
    ALL_PUBLISHED = "the manifest of a job with nothing left to do is there"
    OUTSIDE_TOLD = "the outside is told, without a complaint"
    FAILED = "the storage refuses, or takes too long"


_S, _E = FlightState, FlightEvent

STEPS: Final[Mapping[tuple[FlightState, FlightEvent], FlightState]] = {
    (_S.IDLE, _E.BEGUN): _S.ORDERED,
    (_S.ORDERED, _E.ORDER_COMMITTED): _S.UPLOADING,
    (_S.UPLOADING, _E.ALL_UPLOADED): _S.PUBLISHING,
    (_S.UPLOADING, _E.FAILED): _S.IDLE,
    (_S.PUBLISHING, _E.PUBLISHED): _S.IDLE,
    (_S.PUBLISHING, _E.ALL_PUBLISHED): _S.TELLING,
    (_S.PUBLISHING, _E.FAILED): _S.IDLE,
    (_S.TELLING, _E.OUTSIDE_TOLD): _S.CLOSING,
    (_S.CLOSING, _E.PUBLISHED): _S.OVER,
    (_S.CLOSING, _E.FAILED): _S.IDLE,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """All of a job's state after a round, ready to be published.

    Attributes:
        number: counts checkpoints, from one.
        round: the last round that it covers.
        play: the position of the sources that the driver plays.
        phase: how far the job was when the checkpoint was begun.
        drain: the request to drain the job, if its sources are cut.
        files: where the state of each slot is.
        is_awaited: whether the job waits for it.
    """

    number: int
    round: int
    play: int
    phase: DrainPhase
    drain: DrainNotification | None
    reports: Mapping[LevelSlot, RoundReport]
    files: Mapping[LevelSlot, Uploaded]
    is_awaited: bool = False


@dataclass(slots=True)
class Flight:
    """What is known of the checkpoint on its way.

    Attributes:
        since: when it was begun; processing time, microseconds since 1970.
        asked: when its state was looked up last, by the same clock.
        waiting: the slots that have not uploaded their state yet.
    """

    cut: Cut
    since: int
    asked: int = 0
    waiting: set[LevelSlot] = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = set(self.cut.reports) - set(self.cut.files)

    def collect(self, reports: Iterable[RoundReport], now: int, interval: int) -> bool:
        """Take what slots have uploaded; answers whether all have.

        Args:
            now: processing time, microseconds since 1970.
            interval: between the beginnings of two checkpoints, microseconds.

        Raises:
            CheckpointFailed: a slot could not upload its state, or it takes too long.
        """
        files = dict(self.cut.files)
        for report in reports:
            uploaded = report.uploaded
            if uploaded is None or uploaded.number != self.cut.number:
                continue
            if uploaded.error:
                message = f"slot {report.slot} of level {report.level}: {uploaded.error}"
                raise CheckpointFailed(message)
            files[report.level, report.slot] = uploaded
            self.waiting.discard((report.level, report.slot))
        self.cut = replace(self.cut, files=files)
        if self.waiting and now - self.since > max(_PATIENCE, _PATIENCE_INTERVALS * interval):
            message = f"{len(self.waiting)} slots have not uploaded their state in time"
            raise CheckpointFailed(message)
        return not self.waiting
