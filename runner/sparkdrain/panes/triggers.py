"""Which machine is for which of Beam's triggers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from apache_beam.transforms import trigger as beam
from apache_beam.transforms.trigger import (
    _AfterSynchronizedProcessingTime as AfterSynchronizedProcessingTime,
)
from apache_beam.transforms.trigger import _Never as Never

from sparkdrain.errors import Unsupported
from sparkdrain.panes import trigger as machines
from sparkdrain.panes.trigger_parts import AfterEnd, InTurn, Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.panes.trigger import Trigger

_MICROS = 1_000_000


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
    return machines.AfterProcessingTime(next(numbers), round(trigger.delay * _MICROS))


def _after_any(trigger: Any, numbers: Iterator[int]) -> Trigger:
    return Together(_all(trigger.triggers, numbers), any)


_MACHINES: dict[type, Callable[[Any, Iterator[int]], Trigger]] = {
    beam.DefaultTrigger: lambda _, numbers: machines.Default(next(numbers)),
    beam.Always: lambda _, __: machines.AfterEveryBundle(),
    AfterSynchronizedProcessingTime: lambda _, __: machines.AfterEveryBundle(),
    Never: lambda _, __: machines.Never(),
    beam.AfterCount: lambda trigger, numbers: machines.AfterCount(next(numbers), trigger.count),
    beam.AfterProcessingTime: _after_processing_time,
    beam.AfterWatermark: _after_end,
    beam.Repeatedly: lambda trigger, numbers: machines.Repeatedly(
        _compiled(trigger.underlying, numbers)
    ),
    beam.AfterAny: _after_any,
    beam.OrFinally: _after_any,
    beam.AfterAll: lambda trigger, numbers: Together(_all(trigger.triggers, numbers), all),
    beam.AfterEach: lambda trigger, numbers: InTurn(next(numbers), _all(trigger.triggers, numbers)),
}
