"""What every trigger is: a machine over a few numbers, its slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

Slots = list[int]
"""What a trigger remembers of one window; all zero as the window begins."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a trigger looks at beside its slots."""

    watermark: int
    now: int
    end: int
    """Of the window; all three in microseconds."""


class Trigger(Protocol):
    """A node of the tree, or a tree."""

    has_ontime_pane: bool
    """Whether it fires at the end of the window though nothing came since it last fired."""

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """So many elements came."""

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """Whether a pane is due."""

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """A pane is handed out; returns whether that was the last."""

    def reset(self, slots: Slots) -> None:
        """Begin again."""

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """Make of windows' slots those of the window that they merge into."""

    def awaits_end(self, slots: Slots) -> bool:
        """Whether it must be asked when the watermark passes the end of the window."""

    def end(self, slots: Slots) -> None:
        """It is being asked because the watermark passed the end of the window."""

    def wake(self, slots: Slots, after: int) -> int | None:
        """The first processing time later than ``after`` at which it must be asked."""
