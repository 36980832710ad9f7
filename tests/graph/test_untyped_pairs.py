"""A stateful DoFn reads untyped pairs from before an exchange, and harnesses outside know them."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import environments
from planning_rules import Count, keyed, proto_of

from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.translate import translate

KV = "beam:coder:kv:v1"
PICKLED = "beam:coder:pickled_python:v1"
OUTSIDE = environments.ProcessEnvironment("sparkdrain worker")


def untyped(root):
    return keyed(root, "Pairs") | "Untyped" >> beam.Map(lambda pair: pair).with_output_types(Any)


def directly(root):
    return untyped(root)


def behind_one(root):
    return untyped(root) | beam.Reshuffle()


def behind_two(root):
    return untyped(root) | "First" >> beam.Reshuffle() | "Second" >> beam.Reshuffle()


def coder_of_what_is_counted(pipeline, *, streaming: bool = False) -> str:
    plan = translate(pipeline, streaming=streaming)
    (edge,) = (edge for edge in plan.edges if edge.kind is EdgeKind.KEYED)
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    return components.coders[components.pcollections[edge.pcollection].coder_id].spec.urn


def counted(build, outside: str):
    """A pipeline whose transforms are in the slot's process, but for those that are named so."""
    pipeline = proto_of(lambda root: build(root) | "Count" >> beam.ParDo(Count()))
    proto = OUTSIDE.to_runner_api(None)
    pipeline.components.environments["outside"].CopyFrom(proto)
    for transform in pipeline.components.transforms.values():
        if transform.environment_id and outside in transform.unique_name:
            transform.environment_id = "outside"
    return pipeline


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("outside", ["", "Count", "Untyped"])
@pytest.mark.parametrize("build", [directly, behind_one, behind_two])
def test_pairs_have_a_coder_of_pairs_where_a_harness_outside_has_them(build, outside, streaming):
    pipeline = counted(build, outside)
    assert coder_of_what_is_counted(pipeline, streaming=streaming) == KV


@pytest.mark.parametrize("outside", ["nothing", "Impulse"])
def test_checkpoints_of_slots_know_the_coder_that_pairs_had(outside):
    assert coder_of_what_is_counted(counted(behind_one, outside)) == PICKLED
