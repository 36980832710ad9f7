"""Stages as SDK harnesses get them."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.transforms import environments, trigger, userstate, window

from sparkdrain.fnapi.descriptor import descriptor_for
from sparkdrain.graph.translate import translate
from sparkdrain.graph.wire import STATE_BACKED_ITERABLE

GROUPED_VALUES = "beam:transform:combine_grouped_values:v1"


def _descriptors(proto, **settings):
    plan = translate(proto)
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    edges = {edge.id: edge for edge in plan.edges}
    stages = (stage for level in plan.levels for stage in level)
    return [descriptor_for(stage, edges, components, "here", "1", **settings) for stage in stages]


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
    told = [each for made in _descriptors(proto) for each in made.transforms.values()]
    assert GROUPED_VALUES in {transform.spec.urn for transform in told}
    assert not any(transform.subtransforms for transform in told)


def test_what_takes_gos_cogbk_apart_sees_pairs_in_the_programs_coder():
    """Go writes values in the coder that it is told, and reads them in the program's."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([("a", 1)]).with_output_types(tuple[str, int])
    _ = numbers | beam.Reshuffle() | "inject" >> beam.Map(print)
    proto = pipeline.to_runner_api(
        default_environment=environments.ExternalEnvironment("localhost:1")
    )
    (inject,) = (t for t in proto.components.transforms.values() if t.unique_name == "inject")
    payload = beam_runner_api_pb2.ParDoPayload.FromString(inject.spec.payload)
    payload.do_fn.urn = "beam:go:transform:inject:v1"
    inject.spec.payload = payload.SerializeToString()
    (taken,) = inject.inputs.values()
    for descriptor in _descriptors(proto):
        if any(transform.unique_name == "inject" for transform in descriptor.transforms.values()):
            coder = descriptor.pcollections[taken].coder_id
            assert coder == proto.components.pcollections[taken].coder_id
            assert descriptor.coders[coder].spec.urn == "beam:coder:kv:v1"


class _Sorting(beam.DoFn):
    LIST = userstate.OrderedListStateSpec("list", beam.coders.VarIntCoder())

    def process(self, pair, found=beam.DoFn.StateParam(LIST)):
        yield pair


def test_items_of_gos_ordered_lists_have_their_lengths():
    """Python's harness writes them by itself, Go's if the coder says so."""
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([("a", 1)]).with_output_types(tuple[str, int])
    _ = pairs | beam.ParDo(_Sorting())
    for sdk, coder in {
        "go": "beam:coder:length_prefix:v1",
        "python": "beam:coder:varint:v1",
    }.items():
        proto = pipeline.to_runner_api(
            default_environment=environments.ExternalEnvironment(
                "localhost:1",
                capabilities=[
                    f"beam:version:sdk_base:{sdk}:2.77.0",
                    "beam:protocol:ordered_list_state:v1",
                ],
            )
        )
        (found,) = (
            descriptor.coders[spec.ordered_list_spec.element_coder_id].spec.urn
            for descriptor in _descriptors(proto)
            for transform in descriptor.transforms.values()
            if transform.spec.urn == "beam:transform:pardo:v1"
            for spec in beam_runner_api_pb2.ParDoPayload.FromString(
                transform.spec.payload
            ).state_specs.values()
        )
        assert found == coder


def test_only_the_port_where_a_group_comes_in_may_leave_its_values_out():
    """What a harness writes of a group, or says of it, may outlive the bundle."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([("a", 1)]).with_output_types(tuple[str, int])
    _ = numbers | beam.GroupByKey() | beam.Reshuffle() | beam.Map(print)
    proto = pipeline.to_runner_api(
        default_environment=environments.ExternalEnvironment("localhost:1")
    )
    for in_state in (False, True):
        ports, others = [], []
        for descriptor in _descriptors(proto, groups_in_state=in_state):
            for transform in descriptor.transforms.values():
                if transform.spec.urn == "beam:runner:source:v1":
                    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
                    ports += _urns(descriptor, port.coder_id)
                elif transform.spec.urn == "beam:runner:sink:v1":
                    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
                    others += _urns(descriptor, port.coder_id)
            for pcollection in descriptor.pcollections.values():
                others += _urns(descriptor, pcollection.coder_id)
        assert ports.count(STATE_BACKED_ITERABLE) == in_state
        assert STATE_BACKED_ITERABLE not in others


def _urns(descriptor, coder):
    """Of a coder and of its parts."""
    found = descriptor.coders[coder]
    parts = [urn for part in found.component_coder_ids for urn in _urns(descriptor, part)]
    return [found.spec.urn, *parts]


def test_no_element_has_the_coder_of_windowed_values():
    """Java's harness encodes such an element with the coder of its value."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1]) | "Map" >> beam.Map(print)
    _ = numbers | "Next" >> beam.Map(print)
    proto = pipeline.to_runner_api(
        default_environment=environments.ExternalEnvironment("localhost:1")
    )
    (mapped,) = (t for t in proto.components.transforms.values() if t.unique_name == "Map")
    (made,) = mapped.outputs.values()
    of_value = proto.components.pcollections[made].coder_id
    windowed = proto.components.coders["windowed"]
    windowed.spec.urn = "beam:coder:windowed_value:v1"
    windowed.component_coder_ids[:] = [of_value, "ignored"]
    proto.components.pcollections[made].coder_id = "windowed"
    (descriptor,) = (each for each in _descriptors(proto) if made in each.pcollections)
    coder = descriptor.coders[descriptor.pcollections[made].coder_id]
    assert coder.spec.urn == "beam:coder:length_prefix:v1"
    assert list(coder.component_coder_ids) == ["windowed"]
