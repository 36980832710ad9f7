"""Beam's triggers as machines over a few numbers, which is all that a window has of them.

A trigger is a tree. Each node that remembers something owns a slot; the slots of all nodes are the
state of the trigger in one window.

The rules are those of the trigger classes of Beam's Python SDK, with one difference: these take a
processing time for a watermark when a timer fires, and forget what waits for processing time when
another part of the trigger fires. Here both times are always known, and what waits for processing
time remembers until when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.panes.trigger import Moment, Slots, Trigger

_AWAITS_END = 1


class _Leaf:
    """Remembers nothing and waits for nothing."""

    has_ontime_pane = False

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""

    def awaits_end(self, slots: Slots) -> bool:
        """See ``Trigger``."""
        del slots
        return False

    def end(self, slots: Slots) -> None:
        """See ``Trigger``."""

    def wake(self, slots: Slots, after: int) -> int | None:
        """See ``Trigger``."""
        del slots, after
        return None


class AfterEveryBundle(_Leaf):
    """Always, and what Beam makes of processing time behind a GroupByKey."""

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return True

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return False


class Never(_Leaf):
    """Leaves everything to the pane at the expiry of the window."""

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return False

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return True


class Default(_Leaf):
    """At the end of the window, and for what comes later at once."""

    has_ontime_pane = True

    def __init__(self, slot: int) -> None:
        self._slot = slot

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del count, moment
        slots[self._slot] = _AWAITS_END

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        if moment.watermark < moment.end:
            return False
        slots[self._slot] = 0
        return True

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return False

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        slots[self._slot] = max(other[self._slot] for other in others)

    def awaits_end(self, slots: Slots) -> bool:
        """See ``Trigger``."""
        return slots[self._slot] != 0

    def end(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0


class AfterCount(_Leaf):
    """Once so many elements came."""

    def __init__(self, slot: int, count: int) -> None:
        self._slot = slot
        self._count = count

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del moment
        slots[self._slot] += count

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del moment
        return slots[self._slot] >= self._count

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return True

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        slots[self._slot] = sum(other[self._slot] for other in others)


class AfterProcessingTime(_Leaf):
    """So long after the first element. The slot is when, plus one; nothing was before time 0."""

    def __init__(self, slot: int, delay: int) -> None:
        self._slot = slot
        self._delay = delay

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        del count
        if not slots[self._slot]:
            slots[self._slot] = max(0, moment.now + self._delay) + 1

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        return 0 < slots[self._slot] <= moment.now + 1

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        del slots, moment
        return True

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        waiting = [other[self._slot] for other in others if other[self._slot]]
        slots[self._slot] = min(waiting, default=0)

    def wake(self, slots: Slots, after: int) -> int | None:
        """See ``Trigger``."""
        time = slots[self._slot] - 1
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

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        if self._part.fire(slots, moment):
            self._part.reset(slots)
        return False
