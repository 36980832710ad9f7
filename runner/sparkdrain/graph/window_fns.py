"""Window functions of other SDKs: windows are known by their coder, and nothing else of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from sparkdrain.graph.plan import PCollectionId

SERIALIZED_JAVA: Final = "beam:window_fn:serialized_java:v1"
"""A class of Java's SDK, or of the program, that no other SDK has."""
_KNOWN_WINDOWS: Final = frozenset(
    {common_urns.coders.GLOBAL_WINDOW.urn, common_urns.coders.INTERVAL_WINDOW.urn}
)


def why_not_kept(components: beam_runner_api_pb2.Components, pcollection: PCollectionId) -> str:
    """Why the elements of a PCollection cannot be kept by window; empty if they can."""
    strategy = components.windowing_strategies[
        components.pcollections[pcollection].windowing_strategy_id
    ]
    if strategy.window_fn.urn != SERIALIZED_JAVA:
        return ""
    if strategy.merge_status == beam_runner_api_pb2.MergeStatus.NEEDS_MERGE:
        return "a window function of its own whose windows merge"
    if components.coders[strategy.window_coder_id].spec.urn not in _KNOWN_WINDOWS:
        return "windows of a class of its own"
    return ""
