"""Combines are carried out before their shuffle and after it, where that changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph import beam
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMBINE: Final = common_urns.composites.COMBINE_PER_KEY.urn
_EARLIEST: Final = beam_runner_api_pb2.OutputTime.EARLIEST_IN_PANE
_UNBOUNDED: Final = beam_runner_api_pb2.IsBounded.UNBOUNDED
# Beam lifts a combine unless its trigger must see every element.
_SEES_ALL: Final = beam_runner_api_pb2.Trigger(
    element_count=beam_runner_api_pb2.Trigger.ElementCount(element_count=2)
)


def lift_combiners(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages, combines as the stages that they are made of.

    Beam's pass of this name, but for panes at the time of their earliest element: elements that are
    late do not count for that time, so in a stream they must not be put together with others before
    it is known which are.
    """
    for stage in stages:
        windowing = _windowing(stage, context)
        if windowing is None:
            yield from beam.lift_combiners([stage], context)
            continue
        trigger = beam_runner_api_pb2.Trigger.FromString(windowing.trigger.SerializeToString())
        windowing.trigger.CopyFrom(_SEES_ALL)
        made = list(beam.lift_combiners([stage], context))
        windowing.trigger.CopyFrom(trigger)
        yield from made


def _windowing(stage: Any, context: Any) -> Any:
    """The windowing of a combine that is to see each element with its own time; None of others."""
    transform = stage.transforms[0]
    if transform.spec.urn != _COMBINE:
        return None
    (name,) = transform.inputs.values()
    pcollection = context.components.pcollections[name]
    windowing = context.components.windowing_strategies[pcollection.windowing_strategy_id]
    apart = pcollection.is_bounded == _UNBOUNDED and windowing.output_time == _EARLIEST
    return windowing if apart else None
