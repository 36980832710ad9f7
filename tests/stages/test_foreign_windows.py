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
from sparkdrain.stages.shards.foreign_windows import with_foreign_windows

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


def test_windows_that_merge_are_refused(proto):
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    strategy.merge_status = beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
    with pytest.raises(Unsupported, match=r"WindowInto.* merge .*serialized_java.* IntervalWindow"):
        check(proto)


def test_windows_of_a_class_of_their_own_are_refused(proto):
    strategy = proto.components.windowing_strategies[_ours(proto.components)]
    proto.components.coders["own"].spec.urn = "beam:coders:javasdk:0.1"
    strategy.window_coder_id = "own"
    with pytest.raises(Unsupported, match=r"WindowInto.* class of its own .*serialized_java"):
        check(proto)
