"""What every trigger is: a machine over a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

Numbers = list[int]
"""What a trigger remembers of one window; all zero as the window begins."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a trigger looks at beside its numbers."""

    watermark: int
    now: int
    end: int
    """The end of the window; all three times are in microseconds."""


class Trigger:
    """A node of the tree, or a tree; without more it remembers nothing and never fires."""

    has_ontime_pane = False
    """Whether it fires at the end of the window though nothing came since it last fired."""

    fires_once = True
    """Whether it is finished when it has fired, if ``fire`` is not its own."""

    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        """Take that so many elements came."""

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """Whether a pane is due."""
        return False

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """A pane is handed out; returns whether that was the last."""
        return self.fires_once

    def reset(self, numbers: Numbers) -> None:
        """Begin again."""

    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        """Make of windows' numbers those of the window that they merge into."""

    def awaits_end(self, numbers: Numbers) -> bool:
        """Whether it must be asked when the watermark passes the end of the window."""
        return False

    def end(self, numbers: Numbers) -> None:
        """Take that the watermark has passed the end of the window."""

    def wake(self, numbers: Numbers, after: int) -> int | None:
        """The first processing time later than ``after`` at which it must be asked."""
        return None
