"""Triggers that are made of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sparkdrain.panes.trigger import Moment, Slots, Trigger

_LATE, _AWAITS_END = 1, 2


class _Parts:
    """Parts that remember and wait each for itself."""

    def __init__(self, parts: list[Trigger]) -> None:
        self._parts = parts
        self.has_ontime_pane = any(part.has_ontime_pane for part in parts)

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        for part in self._parts:
            part.reset(slots)

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        for part in self._parts:
            part.merge(slots, others)

    def awaits_end(self, slots: Slots) -> bool:
        """See ``Trigger``."""
        return any(part.awaits_end(slots) for part in self._parts)

    def end(self, slots: Slots) -> None:
        """See ``Trigger``."""
        for part in self._parts:
            part.end(slots)


class Together(_Parts):
    """AfterAny and AfterAll: ``combine`` says how many of the parts it takes."""

    def __init__(self, parts: list[Trigger], combine: Callable[[Iterable[bool]], bool]) -> None:
        super().__init__(parts)
        self._combine = combine

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        for part in self._parts:
            part.add(slots, count, moment)

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        return self._combine(part.should_fire(slots, moment) for part in self._parts)

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        return self._combine(
            [part.fire(slots, moment) for part in self._parts if part.should_fire(slots, moment)]
        )

    def wake(self, slots: Slots, after: int) -> int | None:
        """See ``Trigger``."""
        return _earliest(part.wake(slots, after) for part in self._parts)


class InTurn(_Parts):
    """AfterEach: one part after the other; the slot is which it is at."""

    def __init__(self, slot: int, parts: list[Trigger]) -> None:
        super().__init__(parts)
        self._slot = slot

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        part = self._part(slots)
        if part is not None:
            part.add(slots, count, moment)

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        part = self._part(slots)
        return part is not None and part.should_fire(slots, moment)

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        part = self._part(slots)
        if part is None:
            return False
        if part.fire(slots, moment):
            slots[self._slot] += 1
        return slots[self._slot] == len(self._parts)

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0
        super().reset(slots)

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        slots[self._slot] = max(other[self._slot] for other in others)
        super().merge(slots, others)

    def wake(self, slots: Slots, after: int) -> int | None:
        """See ``Trigger``."""
        part = self._part(slots)
        return None if part is None else part.wake(slots, after)

    def _part(self, slots: Slots) -> Trigger | None:
        index = slots[self._slot]
        return self._parts[index] if index < len(self._parts) else None


class AfterEnd(_Parts):
    """AfterWatermark: at the end of the window, with other triggers before and after it."""

    def __init__(self, slot: int, early: Trigger | None, late: Trigger | None) -> None:
        super().__init__([part for part in (early, late) if part is not None])
        self._slot = slot
        self._early = early
        self._late = late
        self.has_ontime_pane = True

    def add(self, slots: Slots, count: int, moment: Moment) -> None:
        """See ``Trigger``."""
        if not self._is_late(slots):
            slots[self._slot] |= _AWAITS_END
        part = self._part(slots)
        if part is not None:
            part.add(slots, count, moment)

    def should_fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        if not self._is_late(slots) and moment.watermark >= moment.end:
            slots[self._slot] &= ~_AWAITS_END
            return True
        part = self._part(slots)
        return part is not None and part.should_fire(slots, moment)

    def fire(self, slots: Slots, moment: Moment) -> bool:
        """See ``Trigger``."""
        if self._is_late(slots):
            part = self._part(slots)
            return part is not None and part.fire(slots, moment)
        if moment.watermark >= moment.end:
            slots[self._slot] |= _LATE
            return self._late is None
        if self._early is not None:
            self._early.fire(slots, moment)
        return False

    def reset(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] &= ~_LATE
        super().reset(slots)

    def merge(self, slots: Slots, others: list[Slots]) -> None:
        """See ``Trigger``."""
        slots[self._slot] = 0
        for other in others:
            slots[self._slot] |= other[self._slot]
        super().merge(slots, others)

    def awaits_end(self, slots: Slots) -> bool:
        """See ``Trigger``."""
        return bool(slots[self._slot] & _AWAITS_END) or super().awaits_end(slots)

    def end(self, slots: Slots) -> None:
        """See ``Trigger``."""
        slots[self._slot] &= ~_AWAITS_END
        super().end(slots)

    def wake(self, slots: Slots, after: int) -> int | None:
        """See ``Trigger``."""
        part = self._part(slots)
        return None if part is None else part.wake(slots, after)

    def _is_late(self, slots: Slots) -> bool:
        return self._late is not None and bool(slots[self._slot] & _LATE)

    def _part(self, slots: Slots) -> Trigger | None:
        return self._late if self._is_late(slots) else self._early


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
