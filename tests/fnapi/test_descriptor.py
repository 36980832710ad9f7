"""Stages as SDK harnesses get them."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import environments, trigger, window

from sparkdrain.fnapi.descriptor import descriptor_for
from sparkdrain.graph.translate import translate

GROUPED_VALUES = "beam:transform:combine_grouped_values:v1"


def test_no_transform_of_a_stage_has_parts():
    """Java's harness takes a transform with parts for a composite, which it cannot process."""
    pipeline = beam.Pipeline()
    counted = beam.WindowInto(
        window.GlobalWindows(),
        trigger=trigger.Repeatedly(trigger.AfterCount(2)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    _ = pipeline | beam.Create([("a", 1)]) | counted | beam.CombinePerKey(sum)
    proto = pipeline.to_runner_api(
        default_environment=environments.ExternalEnvironment("localhost:1")
    )
    plan = translate(proto)
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    edges = {edge.id: edge for edge in plan.edges}
    told = [
        transform
        for level in plan.levels
        for stage in level
        for transform in descriptor_for(stage, edges, components, "here", "1").transforms.values()
    ]
    assert GROUPED_VALUES in {transform.spec.urn for transform in told}
    assert not any(transform.subtransforms for transform in told)
