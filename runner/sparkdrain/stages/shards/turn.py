"""What an input of a stage is told in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkdrain.watermarks.frontier import BEGIN

if TYPE_CHECKING:
    from sparkdrain.stages.shards.budget import Budget


@dataclass(frozen=True, slots=True)
class Feed:
    """What the driver gives to a source that it plays itself, see ``TestStream``.

    Attributes:
        elements: (encoded element, timestamp in microseconds).
        frontier: the source's output frontier after them.
        before: the frontier that it had.
    """

    elements: tuple[tuple[bytes, int], ...]
    frontier: int
    before: int = BEGIN


@dataclass(frozen=True, slots=True)
class Turn:
    """What an input is told in a round.

    Attributes:
        before: its frontier when the round began: what is older than that is late.
        after: its frontier now.
        now: processing time, microseconds.
        feed: what the driver gives to a source that it plays itself.
        held: sources give nothing.
        draining: the job is drained.
        of_drain: the second part of a drained round: the drain has caused what is fed and fired.
        complete: up to where all elements are there, if that is more than ``after``.
        repeats: how many generations of timers may be set by timers; None: any number.
    """

    before: int
    after: int
    now: int
    budget: Budget
    feed: Feed | None = None
    held: bool = False
    draining: bool = False
    of_drain: bool = False
    complete: int | None = None
    repeats: int | None = None

    @property
    def complete_until(self) -> int:
        """Up to where all elements are there."""
        return self.after if self.complete is None else self.complete
