"""Makes the harness of a stage that runs outside of the slot's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.fnapi.harness import FnHarness
from sparkdrain.fnapi.per_source import HarnessPerSource
from sparkdrain.graph.environments import is_go

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.graph.plan import Edge, EdgeId, Stage
    from sparkdrain.harness.harness import Harness, StateTerms, Writer


def harness_outside(
    stage: Stage,
    edges: Mapping[EdgeId, Edge],
    components: beam_runner_api_pb2.Components,
    windowings: Any,
    writers: Mapping[EdgeId, Writer],
    open_side_input: Callable[[int], Any],
    state_terms: Callable[[str], StateTerms],
    outside: Outside,
    *,
    keep: bool,
) -> Harness:
    """An ``FnHarness``, which tells what the arguments are, or one for each source."""

    def make(part: Stage) -> FnHarness:
        return FnHarness(
            part,
            edges,
            components,
            windowings,
            writers,
            open_side_input,
            state_terms,
            outside,
            keep=keep,
        )

    environment = components.environments[stage.environment]
    if len(stage.sources) > 1 and is_go(environment):
        return HarnessPerSource(stage, make)
    return make(stage)
