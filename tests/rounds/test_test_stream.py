from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream, test_stream_service
from apache_beam.transforms import environments
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    Always,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from sparkdrain.errors import SparkDrainError, TruncatedInput
from sparkdrain.graph.check import check, is_streaming
from sparkdrain.graph.translate import translate
from sparkdrain.options import JobSettings
from sparkdrain.rounds.clock import WallClock
from sparkdrain.rounds.driver.loop import Play
from sparkdrain.rounds.driver.test_stream import ScriptClock, play_for
from sparkdrain.stages.shards.turn import Feed
from sparkdrain.types import CancelToken
from sparkdrain.watermarks.frontier import BEGIN, END
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.restrictions import Poll

SECOND = 1_000_000


def new_pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions([]))


def proto_of(pipeline):
    return pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment())


def plan_of(*streams):
    pipeline = new_pipeline()
    for number, stream in enumerate(streams):
        outputs = pipeline | f"Stream{number}" >> stream
        for tag, output in outputs.items() if isinstance(outputs, dict) else [("", outputs)]:
            _ = output | f"Map{number}{tag}" >> beam.Map(lambda value: value)
    return translate(proto_of(pipeline), streaming=True)


def played(play):
    """All feeds, one after the other, and what the clock says at each."""
    while not play.is_over:
        feeds = play.next(quiet=True)
        assert play.next(quiet=True) is feeds, "the same until it is committed"
        play.committed()
        yield feeds


def test_events_come_one_by_one_in_the_order_of_the_script():
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(10)
        .add_elements(["a", "b"])
        .advance_processing_time(5)
        .add_elements([TimestampedValue("c", 7)])
    )
    plan = plan_of(stream)
    play, clock = play_for(plan, WallClock())
    (source,) = plan.played
    encode = beam.coders.FastPrimitivesCoder().encode
    feeds = [(clock.now(), feed) for feed in played(play)]
    ten = 10 * SECOND
    assert feeds == [
        (0, {source.transform: Feed((), ten, BEGIN)}),
        (0, {source.transform: Feed(((encode("a"), ten), (encode("b"), ten)), ten, ten)}),
        (5 * SECOND, {}),
        (5 * SECOND, {source.transform: Feed(((encode("c"), 7 * SECOND),), ten, ten)}),
        (5 * SECOND, {source.transform: Feed((), END, ten)}),
    ]


@pytest.mark.parametrize(
    ("trigger", "together"),
    [(Always(), [1, 1]), (Repeatedly(AfterCount(2)), [1, 1]), (DefaultTrigger(), [2])],
)
def test_events_of_go_give_element_after_element_to_triggers_that_count(trigger, together):
    pipeline = new_pipeline()
    stream = test_stream.TestStream().add_elements(["a", "b"]).advance_watermark_to(10)
    windows = beam.WindowInto(
        FixedWindows(10), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING
    )
    _ = pipeline | stream | windows | beam.Map(lambda value: value)
    for sdk, sizes in {"go": together, "java": [2]}.items():
        environment = environments.ExternalEnvironment(
            "localhost:1", capabilities=[f"beam:version:sdk_base:{sdk}:2.77.0"]
        )
        plan = translate(pipeline.to_runner_api(default_environment=environment), streaming=True)
        play, _ = play_for(plan, WallClock())
        given = [len(feed.elements) for feeds in played(play) for feed in feeds.values()]
        assert given == [*sizes, 0, 0], "the watermark comes after, and the end"


def test_no_event_is_given_before_the_one_before_it_is_worked_off():
    play, _ = play_for(plan_of(test_stream.TestStream().advance_watermark_to(1)), WallClock())
    assert play.next(quiet=False) == {}
    assert len(play.next(quiet=True)) == 1


def test_a_script_that_is_cut_ends_at_once_however_busy_the_job_is():
    stream = test_stream.TestStream().advance_watermark_to(1).advance_watermark_to(2)
    plan = plan_of(stream)
    play, _ = play_for(plan, WallClock())
    play.cut()
    (source,) = plan.played
    assert play.next(quiet=False) == {source.transform: Feed((), END, BEGIN)}


def test_an_undone_round_gets_the_same_event_again_and_time_does_not_move_twice():
    stream = test_stream.TestStream().advance_processing_time(5).advance_watermark_to(3)
    play, clock = play_for(plan_of(stream), WallClock())
    assert play.next(quiet=True) == play.next(quiet=True) == {}
    assert clock.now() == 5 * SECOND
    play.committed()
    assert len(play.next(quiet=True)) == 1


def test_each_output_has_a_watermark_of_its_own():
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(5, tag="letters")
        .advance_watermark_to(20, tag="numbers")
    )
    plan = plan_of(stream)
    assert sorted(source.tag for source in plan.played) == ["letters", "numbers"]
    letters, numbers = sorted(plan.played, key=lambda source: source.tag)
    play, _ = play_for(plan, WallClock())
    standing = []
    for _ in played(play):
        now = play.standing()
        standing.append((now[letters.transform].frontier, now[numbers.transform].frontier))
    assert standing == [(5 * SECOND, BEGIN), (5 * SECOND, 20 * SECOND), (END, END)]


def test_a_watermark_that_goes_back_stays_and_a_warning_names_the_source(caplog):
    stream = test_stream.TestStream(
        events=[test_stream.WatermarkEvent(9), test_stream.WatermarkEvent(4)], output_tags=[None]
    )
    plan = plan_of(stream)
    play, _ = play_for(plan, WallClock())
    frontiers = [feed.frontier for feeds in played(play) for feed in feeds.values()]
    assert frontiers == [9 * SECOND, 9 * SECOND, END]
    assert "Stream0" in caplog.text
    assert "back" in caplog.text


def test_streams_are_played_one_after_the_other_and_end_together():
    stream = test_stream.TestStream().advance_watermark_to(1)
    plan = plan_of(stream, test_stream.TestStream().advance_watermark_to(2))
    play, _ = play_for(plan, WallClock())
    assert [sorted(feed.frontier for feed in feeds.values()) for feeds in played(play)] == [
        [SECOND],
        [2 * SECOND],
        [END, END],
    ]


def test_without_a_test_stream_the_clock_is_the_jobs_own():
    clock = WallClock()
    play, same = play_for(plan_of(), clock)
    assert same is clock
    assert type(play) is Play


def test_the_clock_of_a_script_leaps_only_after_its_end():
    clock, cancel = ScriptClock(), CancelToken()
    clock.wait_until(1000, cancel)
    assert clock.now() == 0
    clock.is_over = True
    clock.wait_until(1000, cancel)
    assert clock.now() == 1000
    clock.wait_until(500, cancel)
    assert clock.now() == 1000
    with pytest.raises(SparkDrainError, match="never comes"):
        clock.wait_until(None, cancel)


# --- pipelines ------------------------------------------------------------------------------------

SEEN: list = []


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()


class Note(beam.DoFn):
    def process(self, element, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        SEEN.append((element, time, window))
        yield element


@pytest.mark.parametrize("slots", [1, 3])
def test_elements_arrive_with_their_timestamps(slots):
    pipeline = new_pipeline()
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(10)
        .add_elements(["a", "b"])
        .advance_watermark_to(20)
        .add_elements([TimestampedValue("late", 12), TimestampedValue("last", 310)])
        .advance_watermark_to_infinity()
    )
    _ = pipeline | stream | beam.ParDo(Note())
    run_in_rounds(pipeline, slots=slots)
    assert [(element, time) for element, time, _ in SEEN] == [
        ("a", Timestamp(10)),
        ("b", Timestamp(10)),
        ("late", Timestamp(12)),
        ("last", Timestamp(310)),
    ]


def test_an_element_with_windows_of_its_own_keeps_them():
    pipeline = new_pipeline()
    value = WindowedValue("a", Timestamp(5), [IntervalWindow(5, 10)], PANE_INFO_UNKNOWN)
    stream = test_stream.TestStream().add_elements([test_stream.WindowedValueHolder(value)])
    _ = pipeline | stream | beam.ParDo(Note())
    run_in_rounds(pipeline)
    assert list(SEEN) == [("a", Timestamp(5), IntervalWindow(5, 10))]


def test_windows_fire_as_the_script_moves_the_watermark_of_their_stream():
    pipeline = new_pipeline()
    stream = (
        test_stream.TestStream()
        .add_elements([TimestampedValue(("k", 1), 1)], tag="a")
        .add_elements([TimestampedValue(("k", 2), 1)], tag="b")
        .advance_watermark_to(20, tag="b")
        .add_elements([TimestampedValue(("k", 3), 25)], tag="b")
        .advance_watermark_to(20, tag="a")
    )
    outputs = pipeline | stream
    for tag in "ab":
        _ = (
            outputs[tag]
            | f"Window{tag}" >> beam.WindowInto(FixedWindows(10))
            | f"Group{tag}" >> beam.GroupByKey()
            | f"Name{tag}" >> beam.Map(lambda pair, tag: (tag, list(pair[1])), tag)
            | f"Note{tag}" >> beam.ParDo(Note())
        )
    run_in_rounds(pipeline)
    assert [element for element, _, _ in SEEN] == [("b", [2]), ("a", [1]), ("b", [3])]


def test_rounds_that_fail_do_not_change_what_comes_out():
    pipeline = new_pipeline()
    stream = test_stream.TestStream()
    for number in range(5):
        stream.add_elements([number], event_timestamp=9).advance_watermark_to(number + 1)
    _ = (
        pipeline
        | stream
        | beam.WindowInto(FixedWindows(100))
        | beam.Map(lambda n: ("all", n))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: sorted(numbers))
        | beam.ParDo(Note())
    )
    tries: dict[int, int] = {}

    def fail(header):
        if header.slot == 1 and header.level == 1:
            tries[header.number] = tries.get(header.number, 0) + 1
            if tries[header.number] == 1:
                message = "lost"
                raise TruncatedInput(message)

    run_in_rounds(pipeline, fail=fail)
    assert sum(1 for count in tries.values() if count > 1) > 1
    assert SEEN[-1][0] == [0, 1, 2, 3, 4]


def test_a_restriction_goes_on_when_the_script_says_that_it_is_time():
    pipeline = new_pipeline()
    stream = (
        test_stream.TestStream()
        .add_elements([(0, 2, 10)], tag="ranges")
        .advance_processing_time(5)
        .add_elements(["after 5"], tag="marks")
        .advance_processing_time(6)
        .add_elements(["after 11"], tag="marks")
    )
    outputs = pipeline | stream
    _ = (
        (outputs["ranges"] | beam.ParDo(Poll()), outputs["marks"])
        | beam.Flatten()
        | beam.ParDo(Note())
    )
    run_in_rounds(pipeline)
    assert [element for element, _, _ in SEEN] == [0, "after 5", 1, "after 11"]


class Recorded:
    """What a service has to offer, in its own unit: microseconds."""

    def __init__(self, stream):
        coder = beam.coders.FastPrimitivesCoder()
        self._events = [event.to_runner_api(coder) for event in stream._events]

    def read_multiple(self, keys):
        del keys
        yield from self._events


def test_events_may_come_from_a_service():
    recorded = (
        test_stream.TestStream()
        .advance_watermark_to(10_000)
        .add_elements(["a"])
        .advance_processing_time(10_000)
        .add_elements([TimestampedValue("b", 12_000)])
    )
    service = test_stream_service.TestStreamServiceController(reader=Recorded(recorded))
    service.start()
    try:
        pipeline = new_pipeline()
        stream = test_stream.TestStream(endpoint=service.endpoint)
        _ = pipeline | stream | beam.ParDo(Note())
        rounds = run_in_rounds(pipeline)
    finally:
        service.stop()
    assert [(element, time) for element, time, _ in SEEN] == [
        ("a", Timestamp(10)),
        ("b", Timestamp(12)),
    ]
    assert rounds.loop.clock.now() == 10 * SECOND


def test_a_service_that_is_not_there_has_no_events():
    pipeline = new_pipeline()
    stream = test_stream.TestStream(endpoint="localhost:1")
    _ = pipeline | stream | beam.ParDo(Note())
    run_in_rounds(pipeline)
    assert not SEEN


# --- check ----------------------------------------------------------------------------------------


def _stream_proto(stream):
    pipeline = new_pipeline()
    _ = pipeline | stream | beam.Map(lambda value: value)
    return proto_of(pipeline)


def test_a_test_stream_makes_a_job_a_streaming_job():
    proto = _stream_proto(test_stream.TestStream().advance_watermark_to(MAX_TIMESTAMP))
    assert is_streaming(proto, JobSettings())
    check(proto, streaming=True)


def test_a_bounded_job_is_a_streaming_job_if_it_is_asked_to_be():
    pipeline = new_pipeline()
    _ = pipeline | beam.Create([1])
    proto = proto_of(pipeline)
    assert not is_streaming(proto, JobSettings())
    assert is_streaming(proto, JobSettings(streaming=True))
    check(proto, streaming=True)


def test_a_script_that_moves_time_beyond_its_end_moves_it_to_its_end():
    clock = ScriptClock()
    clock.advance(30_000_000)
    clock.advance(END)
    assert clock.now() == END
