from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import AsIter
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, TimestampCombiner
from planning_rules import PIPELINES, Numbers, keyed, proto_of
from written import stages_text

from sparkdrain.graph import urns
from sparkdrain.graph.optimize import PASSES, leaves_of
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.translate import translate


class SumAndLargest(beam.PTransform):
    """Beam packs combiners only in transforms that ask for it."""

    def annotations(self):
        return {python_urns.APPLY_COMBINER_PACKING: b""}

    def expand(self, pairs):
        return pairs | "Sum" >> beam.CombinePerKey(sum), pairs | "Largest" >> beam.CombinePerKey(
            max
        )


def combined_twice(root):
    _ = keyed(root, "Pairs") | "Both" >> SumAndLargest()


def with_deprecated_read(pipeline):
    """As SDKs make it that still have a primitive Read."""
    for transform in pipeline.components.transforms.values():
        if transform.unique_name == "Pairs/Impulse":
            transform.spec.urn = urns.READ
            transform.spec.payload = beam_runner_api_pb2.ReadPayload().SerializeToString()
    return pipeline


def splittable_with_side_input(root):
    class NumbersBeside(Numbers):
        def process(self, element, beside, tracker=beam.DoFn.RestrictionParam()):
            del beside
            yield from Numbers.process(self, element, tracker)

    _ = root | beam.Impulse() | "Numbers" >> beam.ParDo(NumbersBeside(), AsIter(keyed(root, "S")))


def script_with_two_outputs(root):
    stream = test_stream.TestStream().advance_watermark_to(1, "a").advance_watermark_to(1, "b")
    outputs = root | "Script" >> stream
    _ = outputs["a"] | "A" >> beam.Map(str), outputs["b"] | "B" >> beam.Map(str)


SHOWN = {
    "read_from_impulse": lambda: with_deprecated_read(
        proto_of(PIPELINES["group-by-key-is-a-barrier"])
    ),
    "separate_test_streams": lambda: proto_of(script_with_two_outputs),
    "pack_combiners": lambda: proto_of(combined_twice),
    "lift_combiners": lambda: proto_of(PIPELINES["combine-is-lifted"]),
    "expand_sdf": lambda: proto_of(PIPELINES["splittable-dofn-spreads-its-restrictions"]),
    "drop_side_inputs_of_exchanges": lambda: proto_of(splittable_with_side_input),
    "skip_exchanges": lambda: proto_of(
        PIPELINES["stateful-behind-reshuffle-is-partitioned-by-key"]
    ),
    "skip_exchanges_before_groups": lambda: proto_of(
        PIPELINES["group-by-key-behind-reshuffle-is-one-barrier"]
    ),
    "separate_barriers": lambda: proto_of(PIPELINES["barrier-after-barrier-gets-an-identity"]),
}


def test_every_pass_is_shown():
    assert [rewrite.__name__ for rewrite in PASSES] == list(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_pass_rewrites_the_pipeline(name, golden):
    context, stages = leaves_of(SHOWN[name]())
    for rewrite in PASSES:
        before = stages_text(stages)
        stages = list(rewrite(stages, context))
        if rewrite.__name__ == name:
            after = stages_text(stages)
            break
    assert before != after
    golden(f"pass-{name.replace('_', '-')}", f"before\n{before}\n\nafter\n{after}")


def test_an_exchange_stays_if_only_what_is_behind_it_is_known_to_be_pairs():
    """Harnesses in other processes have to tell keys from values."""

    def build(root):
        made = keyed(root, "Pairs") | beam.Map(lambda pair: pair).with_output_types(Any)
        _ = made | beam.Reshuffle() | beam.GroupByKey() | beam.Map(str)

    plan = translate(proto_of(build))
    assert [edge.kind for edge in plan.edges] == [EdgeKind.SPREAD, EdgeKind.GROUP]
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    coder = components.pcollections[plan.edges[1].pcollection].coder_id
    assert components.coders[coder].spec.urn == "beam:coder:kv:v1"


def test_streaming_jobs_keep_the_edges_that_their_checkpoints_know():
    pipeline = proto_of(PIPELINES["group-by-key-behind-reshuffle-is-one-barrier"])
    kinds = [
        [edge.kind for edge in translate(pipeline, streaming=streaming).edges]
        for streaming in (False, True)
    ]
    assert kinds == [
        [EdgeKind.GROUP],
        [EdgeKind.SPREAD, EdgeKind.SPREAD, EdgeKind.GROUP],
    ]


@pytest.mark.parametrize(
    ("combiner", "bounded", "lifted"),
    [
        (TimestampCombiner.OUTPUT_AT_EARLIEST, False, False),
        (TimestampCombiner.OUTPUT_AT_EARLIEST, True, True),
        (TimestampCombiner.OUTPUT_AT_EOW, False, True),
    ],
)
def test_what_may_be_late_keeps_its_own_time_if_panes_are_at_the_earliest(
    combiner, bounded, lifted
):
    root = beam.Pipeline(options=PipelineOptions([]))
    source = beam.Create([(1, 2)]) if bounded else test_stream.TestStream()
    windows = beam.WindowInto(FixedWindows(10), timestamp_combiner=combiner)
    pairs = root | source | beam.Map(tuple).with_output_types(tuple[int, int]) | windows
    _ = pairs | beam.CombinePerKey(sum)
    plan = translate(root.to_runner_api(), streaming=True)
    protos = [
        beam_runner_api_pb2.PTransform.FromString(data)
        for stages in plan.levels
        for stage in stages
        for _, data in stage.transforms
    ]
    assert any(proto.spec.urn == urns.PRECOMBINE for proto in protos) == lifted
    payloads = beam_runner_api_pb2.Components.FromString(plan.components).windowing_strategies
    assert {windowing.trigger.WhichOneof("trigger") for windowing in payloads.values()} == {
        "default"
    }
