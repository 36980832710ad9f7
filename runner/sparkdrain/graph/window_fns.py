"""Window functions of other SDKs, which only their harness can call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from sparkdrain.graph.plan import PCollectionId

SERIALIZED_JAVA: Final = "beam:window_fn:serialized_java:v1"
"""A class of Java's SDK, or of the program, that no other SDK has."""
FOREIGN = frozenset({SERIALIZED_JAVA})
"""URNs of the window functions that a slot cannot call."""
_KNOWN_WINDOWS: Final = frozenset(
    {common_urns.coders.GLOBAL_WINDOW.urn, common_urns.coders.INTERVAL_WINDOW.urn}
)


def is_foreign(strategy: beam_runner_api_pb2.WindowingStrategy) -> bool:
    """Whether only an SDK harness can call the window function."""
    return strategy.window_fn.urn in FOREIGN


def merges(strategy: beam_runner_api_pb2.WindowingStrategy) -> bool:
    """Whether a GroupByKey merges windows that only an SDK harness can merge."""
    needed = beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
    return is_foreign(strategy) and strategy.merge_status == needed


def has_own_windows(
    strategy: beam_runner_api_pb2.WindowingStrategy, components: beam_runner_api_pb2.Components
) -> bool:
    """Whether windows are of a class that a slot does not know: it has their end, and bytes."""
    known = components.coders[strategy.window_coder_id].spec.urn in _KNOWN_WINDOWS
    return is_foreign(strategy) and not known


def strategy_of(
    components: beam_runner_api_pb2.Components, pcollection: PCollectionId | str
) -> beam_runner_api_pb2.WindowingStrategy:
    """The windowing of a PCollection."""
    id_ = components.pcollections[pcollection].windowing_strategy_id
    return components.windowing_strategies[id_]
