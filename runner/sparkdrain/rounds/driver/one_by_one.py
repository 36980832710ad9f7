"""Whether each element of an event of a script is an event of its own."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2
from google.protobuf.json_format import MessageToJson

from sparkdrain.graph.environments import is_go

if TYPE_CHECKING:
    from sparkdrain.graph.plan import Plan

# Triggers that can tell one element from two.
_COUNTING: Final = re.compile('"(always|elementCount)"')


def comes_one_by_one(plan: Plan) -> bool:
    """Whether the scripts of ``plan`` are given so.

    In the runners of Python's and Java's SDK all elements of an event are in one bundle, after
    which triggers are asked once. Go's runner asks after each element.
    """
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    played = {source.transform for source in plan.played}
    return any(
        is_go(components.environments[stage.environment])
        for stage in chain.from_iterable(plan.levels)
        if not played.isdisjoint(dict(stage.transforms))
    ) and any(
        _COUNTING.search(MessageToJson(strategy.trigger))
        for strategy in components.windowing_strategies.values()
    )
