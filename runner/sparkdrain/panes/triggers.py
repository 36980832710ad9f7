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
from sparkdrain.panes import trigger_leaves as leaves
from sparkdrain.panes.trigger_parts import AfterEnd, InTurn, Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.panes.trigger import Trigger

_MICROS = 1_000_000


def compiled(trigger: Any) -> tuple[Trigger, int]:
    """The machine for a trigger of Beam's, and how many slots it has.

    Raises:
        Unsupported: it is none of those that a pipeline can carry.
    """
    slots = count()
    machine = _compiled(trigger, slots)
    return machine, next(slots)


def _compiled(trigger: Any, slots: Iterator[int]) -> Trigger:
    build = _MACHINES.get(type(trigger))
    if build is None:
        msg = (
            f"the trigger {trigger!r} is not one that the runner knows: use those of "
            "apache_beam.transforms.trigger"
        )
        raise Unsupported(msg)
    return build(trigger, slots)


def _all(triggers: Any, slots: Iterator[int]) -> list[Trigger]:
    return [_compiled(part, slots) for part in triggers]


def _after_end(trigger: Any, slots: Iterator[int]) -> Trigger:
    early, late = trigger.early, trigger.late
    return AfterEnd(
        next(slots),
        _compiled(early, slots) if early else None,
        _compiled(late, slots) if late else None,
    )


def _after_processing_time(trigger: Any, slots: Iterator[int]) -> Trigger:
    return leaves.AfterProcessingTime(next(slots), round(trigger.delay * _MICROS))


def _after_any(trigger: Any, slots: Iterator[int]) -> Trigger:
    return Together(_all(trigger.triggers, slots), any)


_MACHINES: dict[type, Callable[[Any, Iterator[int]], Trigger]] = {
    beam.DefaultTrigger: lambda _, slots: leaves.Default(next(slots)),
    beam.Always: lambda _, __: leaves.AfterEveryBundle(),
    AfterSynchronizedProcessingTime: lambda _, __: leaves.AfterEveryBundle(),
    Never: lambda _, __: leaves.Never(),
    beam.AfterCount: lambda trigger, slots: leaves.AfterCount(next(slots), trigger.count),
    beam.AfterProcessingTime: _after_processing_time,
    beam.AfterWatermark: _after_end,
    beam.Repeatedly: lambda trigger, slots: leaves.Repeatedly(_compiled(trigger.underlying, slots)),
    beam.AfterAny: _after_any,
    beam.OrFinally: _after_any,
    beam.AfterAll: lambda trigger, slots: Together(_all(trigger.triggers, slots), all),
    beam.AfterEach: lambda trigger, slots: InTurn(next(slots), _all(trigger.triggers, slots)),
}
