"""The phases of a job on its way to its end, and the legal steps between them, as data. Pure.

A driver tells a ``Walk`` along ``STEPS`` what has happened, and does in each round what
``INSTRUCTIONS`` says of the present phase. Checkpoints keep the phase, see ``RESUMED``. The diagram
in docs/drain.md is made from these tables.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparkdrain.machine import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping


class DrainPhase(enum.Enum):
    """How far a job is; the name is what is written down."""

    READING = "Sources are read. The driver has heard of no request to drain the job."
    CUT = (
        "Sources give nothing. A checkpoint that says where they stand is on its way. No slot has "
        "heard of the drain."
    )
    TRUNCATED = (
        "Every slot hears of the drain. A slot truncates the restrictions that wait before any of "
        "them goes on."
    )
    FLUSHING = (
        "Time goes to its end. What is inside comes out: restrictions, windows, timers, parked "
        "elements."
    )
    PUBLISHING = (
        "Every stage is drained. A checkpoint of everything is made. Then bundle finalizers tell "
        "the outside, and the driver waits for them."
    )
    DRAINED = "The outside knows, and the last checkpoint says that the job is over."
    ENDING = "As PUBLISHING, for a job whose input has ended by itself."
    DONE = "As DRAINED, for a job whose input has ended by itself."

    @property
    def is_cut(self) -> bool:
        """Whether a drain has cut the sources."""
        return self in _CUT

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do, and the outside knows."""
        return self in (DrainPhase.DRAINED, DrainPhase.DONE)


class DrainEvent(enum.Enum):
    """What a phase waits for."""

    REQUESTED = "a drain is requested"
    CUT_IS_DURABLE = "the newest checkpoint has the cut, or the job has nothing to make durable"
    RESTRICTIONS_ARE_TRUNCATED = "every slot has heard of the drain and has truncated"
    STAGES_ARE_DRAINED = "every stage is drained in every slot"
    INPUT_HAS_ENDED = "all input has ended, and nothing is left to do"
    OUTSIDE_KNOWS = "the outside is told, and the last checkpoint is published"


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the driver does in the rounds of a phase.

    Attributes:
        holds: sources give nothing.
        drains: slots are told to drain.
        ends: no round is run but for checkpoints and for the outside.
    """

    holds: bool = False
    drains: bool = False
    ends: bool = False


_P, _E = DrainPhase, DrainEvent

STEPS: Final[Mapping[tuple[DrainPhase, DrainEvent], DrainPhase]] = {
    (_P.READING, _E.INPUT_HAS_ENDED): _P.ENDING,
    (_P.READING, _E.REQUESTED): _P.CUT,
    (_P.CUT, _E.INPUT_HAS_ENDED): _P.ENDING,
    (_P.CUT, _E.CUT_IS_DURABLE): _P.TRUNCATED,
    (_P.TRUNCATED, _E.STAGES_ARE_DRAINED): _P.PUBLISHING,
    (_P.TRUNCATED, _E.RESTRICTIONS_ARE_TRUNCATED): _P.FLUSHING,
    (_P.FLUSHING, _E.STAGES_ARE_DRAINED): _P.PUBLISHING,
    (_P.PUBLISHING, _E.OUTSIDE_KNOWS): _P.DRAINED,
    (_P.ENDING, _E.OUTSIDE_KNOWS): _P.DONE,
}

INSTRUCTIONS: Final[Mapping[DrainPhase, Instruction]] = {
    _P.READING: Instruction(),
    _P.CUT: Instruction(holds=True),
    _P.TRUNCATED: Instruction(drains=True),
    _P.FLUSHING: Instruction(drains=True),
    _P.PUBLISHING: Instruction(drains=True, ends=True),
    _P.ENDING: Instruction(ends=True),
}

RESUMED: Final[Mapping[DrainPhase, DrainPhase]] = {
    _P.READING: _P.READING,
    _P.CUT: _P.TRUNCATED,
    _P.TRUNCATED: _P.TRUNCATED,
    _P.FLUSHING: _P.TRUNCATED,
    _P.PUBLISHING: _P.TRUNCATED,
    _P.ENDING: _P.READING,
}
"""The first phase of a driver, by the phase in the checkpoint that it goes on from.

The cut is durable then. Each slot has to hear of the drain again, because its producers may be
other ones. If every stage is drained, the job goes on to PUBLISHING at once.
"""

_CUT: Final = frozenset({_P.CUT, _P.TRUNCATED, _P.FLUSHING, _P.PUBLISHING, _P.DRAINED})


def drain_walk(start: DrainPhase = DrainPhase.READING) -> Walk[DrainPhase, DrainEvent]:
    """The way of one driver along ``STEPS``."""
    return Walk("The job", STEPS, start)
