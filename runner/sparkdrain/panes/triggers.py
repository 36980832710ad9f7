"""Triggers that are made of others, and which machine is for which of Beam's triggers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from apache_beam.transforms import trigger as beam
from apache_beam.transforms.trigger import (
    _AfterSynchronizedProcessingTime as AfterSynchronizedProcessingTime,
)
from apache_beam.transforms.trigger import _Never as Never
from typing_extensions import override

from sparkdrain.errors import Unsupported
from sparkdrain.panes import trigger as leaves
from sparkdrain.panes.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sparkdrain.panes.trigger import Moment, Numbers

_MICROS = 1_000_000
_LATE, _AWAITS_END = 1, 2


class _Parts(Trigger):
    """Parts that remember and wait each for itself."""

    def __init__(self, parts: list[Trigger]) -> None:
        self._parts = parts
        self.has_ontime_pane = any(part.has_ontime_pane for part in parts)

    @override
    def reset(self, numbers: Numbers) -> None:
        for part in self._parts:
            part.reset(numbers)

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        for part in self._parts:
            part.merge(numbers, others)

    @override
    def awaits_end(self, numbers: Numbers) -> bool:
        return any(part.awaits_end(numbers) for part in self._parts)

    @override
    def end(self, numbers: Numbers) -> None:
        for part in self._parts:
            part.end(numbers)


class Repeatedly(_Parts):
    """Begins again when its part is finished."""

    def __init__(self, part: Trigger) -> None:
        super().__init__([part])
        self._part = part

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        self._part.add(numbers, count, moment)

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        return self._part.should_fire(numbers, moment)

    @override
    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        if self._part.fire(numbers, moment):
            self._part.reset(numbers)
        return False

    @override
    def awaits_end(self, numbers: Numbers) -> bool:
        return self._part.awaits_end(numbers)

    @override
    def wake(self, numbers: Numbers, after: int) -> int | None:
        return self._part.wake(numbers, after)


class Together(_Parts):
    """AfterAny and AfterAll: ``combine`` says how many of the parts it takes."""

    def __init__(self, parts: list[Trigger], combine: Callable[[Iterable[bool]], bool]) -> None:
        super().__init__(parts)
        self._combine = combine

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        for part in self._parts:
            part.add(numbers, count, moment)

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        return self._combine(part.should_fire(numbers, moment) for part in self._parts)

    @override
    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        return self._combine(
            [
                part.fire(numbers, moment)
                for part in self._parts
                if part.should_fire(numbers, moment)
            ]
        )

    @override
    def wake(self, numbers: Numbers, after: int) -> int | None:
        return _earliest(part.wake(numbers, after) for part in self._parts)


class InTurn(_Parts):
    """AfterEach: one part after the other; the number says which part has its turn."""

    def __init__(self, index: int, parts: list[Trigger]) -> None:
        super().__init__(parts)
        self._index = index

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        part = self._part(numbers)
        if part is not None:
            part.add(numbers, count, moment)

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        part = self._part(numbers)
        return part is not None and part.should_fire(numbers, moment)

    @override
    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        part = self._part(numbers)
        if part is None:
            return False
        if part.fire(numbers, moment):
            numbers[self._index] += 1
        return numbers[self._index] == len(self._parts)

    @override
    def reset(self, numbers: Numbers) -> None:
        numbers[self._index] = 0
        super().reset(numbers)

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        numbers[self._index] = max(other[self._index] for other in others)
        super().merge(numbers, others)

    @override
    def wake(self, numbers: Numbers, after: int) -> int | None:
        part = self._part(numbers)
        return None if part is None else part.wake(numbers, after)

    def _part(self, numbers: Numbers) -> Trigger | None:
        index = numbers[self._index]
        return self._parts[index] if index < len(self._parts) else None


class AfterEnd(_Parts):
    """AfterWatermark: at the end of the window, with other triggers before and after it."""

    def __init__(self, index: int, early: Trigger | None, late: Trigger | None) -> None:
        super().__init__([part for part in (early, late) if part is not None])
        self._index = index
        self._early = early
        self._late = late
        self.has_ontime_pane = True

    @override
    def add(self, numbers: Numbers, count: int, moment: Moment) -> None:
        if not self._is_late(numbers):
            numbers[self._index] |= _AWAITS_END
        part = self._part(numbers)
        if part is not None:
            part.add(numbers, count, moment)

    @override
    def should_fire(self, numbers: Numbers, moment: Moment) -> bool:
        if not self._is_late(numbers) and moment.watermark >= moment.end:
            numbers[self._index] &= ~_AWAITS_END
            return True
        part = self._part(numbers)
        return part is not None and part.should_fire(numbers, moment)

    @override
    def fire(self, numbers: Numbers, moment: Moment) -> bool:
        if self._is_late(numbers):
            part = self._part(numbers)
            return part is not None and part.fire(numbers, moment)
        if moment.watermark >= moment.end:
            numbers[self._index] |= _LATE
            return self._late is None
        if self._early is not None:
            self._early.fire(numbers, moment)
        return False

    @override
    def reset(self, numbers: Numbers) -> None:
        numbers[self._index] &= ~_LATE
        super().reset(numbers)

    @override
    def merge(self, numbers: Numbers, others: list[Numbers]) -> None:
        numbers[self._index] = 0
        for other in others:
            numbers[self._index] |= other[self._index]
        super().merge(numbers, others)

    @override
    def awaits_end(self, numbers: Numbers) -> bool:
        return bool(numbers[self._index] & _AWAITS_END) or super().awaits_end(numbers)

    @override
    def end(self, numbers: Numbers) -> None:
        numbers[self._index] &= ~_AWAITS_END
        super().end(numbers)

    @override
    def wake(self, numbers: Numbers, after: int) -> int | None:
        part = self._part(numbers)
        return None if part is None else part.wake(numbers, after)

    def _is_late(self, numbers: Numbers) -> bool:
        return self._late is not None and bool(numbers[self._index] & _LATE)

    def _part(self, numbers: Numbers) -> Trigger | None:
        return self._late if self._is_late(numbers) else self._early


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)


def compiled(trigger: Any) -> tuple[Trigger, int]:
    """The machine for a trigger of Beam's, and how many numbers it has.

    Raises:
        Unsupported: it is none of those that a pipeline can carry.
    """
    numbers = count()
    machine = _compiled(trigger, numbers)
    return machine, next(numbers)


def _compiled(trigger: Any, numbers: Iterator[int]) -> Trigger:
    build = _MACHINES.get(type(trigger))
    if build is None:
        msg = (
            f"the trigger {trigger!r} is not one that the runner knows: use those of "
            "apache_beam.transforms.trigger"
        )
        raise Unsupported(msg)
    return build(trigger, numbers)


def _all(triggers: Any, numbers: Iterator[int]) -> list[Trigger]:
    return [_compiled(part, numbers) for part in triggers]


def _after_end(trigger: Any, numbers: Iterator[int]) -> Trigger:
    early, late = trigger.early, trigger.late
    return AfterEnd(
        next(numbers),
        _compiled(early, numbers) if early else None,
        _compiled(late, numbers) if late else None,
    )


def _after_processing_time(trigger: Any, numbers: Iterator[int]) -> Trigger:
    return leaves.AfterProcessingTime(next(numbers), round(trigger.delay * _MICROS))


def _after_any(trigger: Any, numbers: Iterator[int]) -> Trigger:
    return Together(_all(trigger.triggers, numbers), any)


_MACHINES: dict[type, Callable[[Any, Iterator[int]], Trigger]] = {
    beam.DefaultTrigger: lambda _, numbers: leaves.Default(next(numbers)),
    beam.Always: lambda _, __: leaves.AfterEveryBundle(),
    AfterSynchronizedProcessingTime: lambda _, __: leaves.AfterEveryBundle(),
    Never: lambda _, __: leaves.Never(),
    beam.AfterCount: lambda trigger, numbers: leaves.AfterCount(next(numbers), trigger.count),
    beam.AfterProcessingTime: _after_processing_time,
    beam.AfterWatermark: _after_end,
    beam.Repeatedly: lambda trigger, numbers: Repeatedly(_compiled(trigger.underlying, numbers)),
    beam.AfterAny: _after_any,
    beam.OrFinally: _after_any,
    beam.AfterAll: lambda trigger, numbers: Together(_all(trigger.triggers, numbers), all),
    beam.AfterEach: lambda trigger, numbers: InTurn(next(numbers), _all(trigger.triggers, numbers)),
}
