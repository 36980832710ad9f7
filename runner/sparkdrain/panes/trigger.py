"""Beam's triggers as machines over a few numbers, which is all that a window has of them.

A trigger is a tree. Each node that remembers something owns a number. All of them
are the state of the trigger in one window.

The rules are those of the trigger classes of Beam's Python SDK, with one difference: these take a
processing time for a watermark when a timer fires, and forget what waits for processing time when
another part of the trigger fires. Here both times are always known, and what waits for processing
time remembers until when.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

Numbers = list[int]
"""What a trigger remembers of one window; all zero as the window begins."""
_AWAITS_END = 1


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


class AfterEveryBundle(Trigger):
    """Always, and what Beam makes of processing time behind a GroupByKey."""

    fires_once = False

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        return True


class Never(Trigger):
    """Leaves everything to the pane at the expiry of the window."""


class _Numbered(Trigger):
    """Remembers one number."""

    def __init__(self, index: int) -> None:
        self._index = index

    @override
    def reset(self, numbers: Numbers) -> None:
        numbers[self._index] = 0


class Default(_Numbered):
    """Fires at the end of the window, and at once for what comes later."""

    has_ontime_pane = True
    fires_once = False

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        numbers[self._index] = _AWAITS_END

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        if moment.watermark < moment.end:
            return False
        numbers[self._index] = 0
        return True

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        numbers[self._index] = max(other[self._index] for other in others)

    @override
    def awaits_end(self, numbers: Numbers) -> bool:
        return numbers[self._index] != 0

    @override
    def end(self, numbers: Numbers) -> None:
        numbers[self._index] = 0


class AfterCount(_Numbered):
    """Once so many elements came."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index)
        self._count = count

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        numbers[self._index] += count

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        return numbers[self._index] >= self._count

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        numbers[self._index] = sum(other[self._index] for other in others)


class AfterProcessingTime(_Numbered):
    """Fires so long after the first element. Its number is that time plus one, or 0 before that."""

    def __init__(self, index: int, delay: int) -> None:
        super().__init__(index)
        self._delay = delay

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        if not numbers[self._index]:
            numbers[self._index] = max(0, moment.now + self._delay) + 1

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        return 0 < numbers[self._index] <= moment.now + 1

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        waiting = [other[self._index] for other in others if other[self._index]]
        numbers[self._index] = min(waiting, default=0)

    @override
    def wake(self, numbers: Numbers, after: int) -> int | None:
        time = numbers[self._index] - 1
        return time if time > max(after, -1) else None
