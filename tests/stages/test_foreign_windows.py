"""Windows of functions that only Java's SDK knows."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import environments, trigger, window

from sparkdrain.errors import Unsupported
from sparkdrain.graph.check import check
from sparkdrain.graph.wire import WireCoders
from sparkdrain.stages.shards.codings import with_foreign_windows

JAVA = "beam:window_fn:serialized_java:v1"


@pytest.fixture
def proto():
    pipeline = beam.Pipeline()
    minutes = pipeline | beam.Create([("a", 1)]) | beam.WindowInto(window.FixedWindows(60))
    _ = minutes | beam.GroupByKey()
    made = pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment())
    for strategy in made.components.windowing_strategies.values():
        if strategy.window_fn.urn == "beam:window_fn:fixed_windows:v1":
            strategy.window_fn.urn = JAVA
            strategy.window_fn.payload = b"serialized"
    return made


def _ours(components):
    strategies = components.windowing_strategies
    (found,) = (id_ for id_, each in strategies.items() if each.window_fn.urn == JAVA)
    return found


def test_a_slot_knows_them_by_their_coder(proto):
    check(proto)
    context = pipeline_context.PipelineContext(with_foreign_windows(proto.components))
    windowing = context.windowing_strategies.get_by_id(_ours(proto.components))
    assert isinstance(windowing.windowfn.get_window_coder(), IntervalWindowCoder)
    assert not windowing.windowfn.is_merging()


def test_a_trigger_of_processing_time_has_a_delay_of_0_if_none_is_said(proto):
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    subtriggers = strategy.trigger.after_any.subtriggers
    subtriggers.add().element_count.element_count = 5
    subtriggers.add().after_processing_time.SetInParent()
    context = pipeline_context.PipelineContext(with_foreign_windows(proto.components))
    windowing = context.windowing_strategies.get_by_id(_ours(proto.components))
    count, time = windowing.triggerfn.triggers
    assert count == trigger.AfterCount(5)
    assert time.delay == 0


def test_what_harnesses_are_told_stays_as_it_was(proto):
    before = proto.components.SerializeToString(deterministic=True)
    with_foreign_windows(proto.components)
    assert proto.components.SerializeToString(deterministic=True) == before


def _own(proto):
    """Windows of a class of the program's own."""
    proto.components.coders["own"].spec.urn = "beam:coders:javasdk:0.1"
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    strategy.window_coder_id = "own"
    return strategy


def _windowing(proto):
    context = pipeline_context.PipelineContext(with_foreign_windows(proto.components))
    return context.windowing_strategies.get_by_id(_ours(proto.components))


def test_windows_that_merge_are_known_to_merge(proto):
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    strategy.merge_status = beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
    assert _windowing(proto).windowfn.is_merging()
    strategy.merge_status = beam_runner_api_pb2.MergeStatus.ALREADY_MERGED
    assert not _windowing(proto).windowfn.is_merging()


def test_windows_of_a_class_of_their_own_are_known_by_their_end(proto):
    strategy = _own(proto)
    wire = WireCoders(proto.components)
    written = proto.components.coders[wire.window(strategy)]
    assert written.spec.urn == "beam:coder:custom_window:v1"
    (whole,) = written.component_coder_ids
    assert proto.components.coders[whole].spec.urn == "beam:coder:length_prefix:v1"
    check(proto)
    coder = _windowing(proto).windowfn.get_window_coder().get_impl()
    end = bytes.fromhex("80000000000003e7")  # of Java: milliseconds, in their order
    known = coder.decode(end + b"\x02ab")
    assert known.max_timestamp().micros == 999_000
    assert coder.encode(known) == end + b"\x02ab"


def test_windows_that_merge_are_refused_if_no_harness_can_merge_them(proto):
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    strategy.merge_status = beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
    with pytest.raises(Unsupported, match=r"has windows that merge .*serialized_java.* own SDK"):
        check(proto)


@pytest.mark.parametrize("windows", ["of a class of its own", "that merge"])
def test_side_inputs_in_windows_that_only_java_knows_are_refused(proto, windows):
    if windows == "that merge":
        strategy = proto.components.windowing_strategies[_ours(proto.components)]
        strategy.merge_status = beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
        environment = proto.components.environments[strategy.environment_id]
        environment.urn = "beam:env:external:v1"
    else:
        _own(proto)
    _give_to_a_step(proto, side_input=True)
    with pytest.raises(Unsupported, match=r"'Step' has the side input 'side' .*IntervalWindows"):
        check(proto)


def test_state_in_windows_of_a_class_of_their_own_is_refused(proto):
    _own(proto)
    _give_to_a_step(proto, side_input=False)
    with pytest.raises(Unsupported, match=r"'Step' has state or timers .*IntervalWindows"):
        check(proto)


def _give_to_a_step(proto, *, side_input):
    payload = beam_runner_api_pb2.ParDoPayload()
    if side_input:
        payload.side_inputs["side"].SetInParent()
    else:
        payload.state_specs["count"].bag_spec.SetInParent()
    step = proto.components.transforms["step"]
    step.unique_name, step.spec.urn = "Step", "beam:transform:pardo:v1"
    step.spec.payload = payload.SerializeToString()
    pcollections = proto.components.pcollections
    (step.inputs["side"], *_) = (
        name
        for name, each in pcollections.items()
        if each.windowing_strategy_id == _ours(proto.components)
    )
    pcollections["out"].CopyFrom(pcollections[step.inputs["side"]])
    step.outputs["out"] = "out"
    proto.root_transform_ids.append("step")
