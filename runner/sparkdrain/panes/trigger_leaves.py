"""Beam's triggers as machines over a few numbers, which is all that a window has of them.

A trigger is a tree. Each node that remembers something owns a number. All of them
are the state of the trigger in one window.

The rules are those of the trigger classes of Beam's Python SDK, with one difference: these take a
processing time for a watermark when a timer fires, and forget what waits for processing time when
another part of the trigger fires. Here both times are always known, and what waits for processing
time remembers until when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.panes.trigger import Moment, Numbers, Trigger

_AWAITS_END = 1


class _Leaf:
    """Remembers nothing and waits for nothing."""

    has_ontime_pane = False

    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        """See ``Trigger``."""

    def reset(self, numbers: Numbers) -> None:
        """See ``Trigger``."""

    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        """See ``Trigger``."""

    def awaits_end(self, numbers: Numbers) -> bool:
        """See ``Trigger``."""
        del numbers
        return False

    def end(self, numbers: Numbers) -> None:
        """See ``Trigger``."""

    def wake(self, numbers: Numbers, after: int) -> int | None:
        """See ``Trigger``."""
        del numbers, after
        return None


class AfterEveryBundle(_Leaf):
    """Always, and what Beam makes of processing time behind a GroupByKey."""

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return True

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return False


class Never(_Leaf):
    """Leaves everything to the pane at the expiry of the window."""

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return False

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return True


class Default(_Leaf):
    """At the end of the window, and for what comes later at once."""

    has_ontime_pane = True

    def __init__(self, index: int) -> None:
        self._index = index

    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del count, moment
        numbers[self._index] = _AWAITS_END

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        if moment.watermark < moment.end:
            return False
        numbers[self._index] = 0
        return True

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return False

    def reset(self, numbers: Numbers) -> None:
        """See ``Trigger``."""
        numbers[self._index] = 0

    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        """See ``Trigger``."""
        numbers[self._index] = max(other[self._index] for other in others)

    def awaits_end(self, numbers: Numbers) -> bool:
        """See ``Trigger``."""
        return numbers[self._index] != 0

    def end(self, numbers: Numbers) -> None:
        """See ``Trigger``."""
        numbers[self._index] = 0


class AfterCount(_Leaf):
    """Once so many elements came."""

    def __init__(self, index: int, count: int) -> None:
        self._index = index
        self._count = count

    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del moment
        numbers[self._index] += count

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del moment
        return numbers[self._index] >= self._count

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return True

    def reset(self, numbers: Numbers) -> None:
        """See ``Trigger``."""
        numbers[self._index] = 0

    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        """See ``Trigger``."""
        numbers[self._index] = sum(other[self._index] for other in others)


class AfterProcessingTime(_Leaf):
    """So long after the first element. The number is when, plus one; nothing was before time 0."""

    def __init__(self, index: int, delay: int) -> None:
        self._index = index
        self._delay = delay

    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del count
        if not numbers[self._index]:
            numbers[self._index] = max(0, moment.now + self._delay) + 1

    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        return 0 < numbers[self._index] <= moment.now + 1

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        del numbers, moment
        return True

    def reset(self, numbers: Numbers) -> None:
        """See ``Trigger``."""
        numbers[self._index] = 0

    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        """See ``Trigger``."""
        waiting = [other[self._index] for other in others if other[self._index]]
        numbers[self._index] = min(waiting, default=0)

    def wake(self, numbers: Numbers, after: int) -> int | None:
        """See ``Trigger``."""
        time = numbers[self._index] - 1
        return time if time > max(after, -1) else None


class Repeatedly:
    """Begins again when its part is finished."""

    def __init__(self, part: Trigger) -> None:
        self._part = part
        self.has_ontime_pane = part.has_ontime_pane
        self.add = part.add
        self.should_fire = part.should_fire
        self.reset = part.reset
        self.merge = part.merge
        self.awaits_end = part.awaits_end
        self.end = part.end
        self.wake = part.wake

    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        """See ``Trigger``."""
        if self._part.fire(numbers, moment):
            self._part.reset(numbers)
        return False
