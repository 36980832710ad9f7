"""Compiled bundles in Beam's harness: they make, count and tell what Beam's own bundles do."""

from __future__ import annotations

import argparse
import atexit
import itertools
import os
import threading
import time
from collections.abc import Iterator
from json import dumps
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.metrics import Metrics
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import bundle_processor, sdk_worker_main
from apache_beam.runners.worker.bundle_processor import BundleProcessor
from apache_beam.runners.worker.data_sampler import DataSampler
from apache_beam.transforms import window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.typehints.typecheck import TypeCheckVisitor
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.cli import worker
from sparkdrain.harness.channel.processor import ChannelProcessor
from sparkdrain.harness.channel.source import ChannelSource
from sparkdrain.harness.compiled.chain import CompiledOperation
from tests.support.bundles import Stage, stages_of

BOTH = (BundleProcessor, ChannelProcessor)
COUNTED = Metrics.counter("test", "counted")


class _Tagged(beam.DoFn):
    """Most numbers go on; some to another output, some with another time."""

    def start_bundle(self):
        self.seen = 0

    def process(self, number):
        self.seen += 1
        COUNTED.inc()
        if number % 3 == 0:
            yield beam.pvalue.TaggedOutput("thirds", number)
        elif number % 3 == 1:
            yield number
        else:
            yield window.TimestampedValue(number, number % 7)

    def finish_bundle(self):
        yield WindowedValue(self.seen, 0, [_window(0)])


def _steps(numbers):
    """Every kind of step that is compiled, and one that is not."""
    tagged = (
        numbers
        | "Map" >> beam.Map(lambda n: n + 1).with_output_types(int)
        | "Filter" >> beam.Filter(lambda n: n % 5)
        | "Tag" >> beam.ParDo(_Tagged()).with_outputs("thirds", main="main")
    )
    thirds = tagged.thirds | "Pairs" >> beam.FlatMap(lambda n: [(n, str(n))] * (n % 3))
    late = tagged.main | "Late" >> beam.Map(lambda n, at=beam.DoFn.TimestampParam: (n, str(at)))
    return (
        (thirds, late)
        | beam.Flatten()
        | "Texts" >> beam.MapTuple(lambda n, text: f"{n} {text}").with_output_types(str)
    )


def _windowed_steps(numbers):
    windows = beam.WindowInto(window.SlidingWindows(4, 2))
    return numbers | "Timed" >> beam.ParDo(_Tagged()) | "Windows" >> windows


def _between(steps, having=""):
    """The descriptor of a stage that takes integers in windows, and hands on what is made.

    Args:
        having: what a name of its transforms has in it.
    """

    def build(pipeline):
        numbers = pipeline | beam.Create([0]) | "Int" >> beam.Map(int).with_output_types(int)
        windowed = numbers | beam.WindowInto(window.FixedWindows(10)) | "In" >> beam.Reshuffle()
        made = steps(windowed)
        if made is not None:
            _ = made | "Out" >> beam.Reshuffle() | "Last" >> beam.Map(print)

    for each in stages_of(build):
        names = [proto.unique_name for proto in each.transforms.values()]
        if {"Int", "Last"}.isdisjoint(names) and any(having in name for name in names):
            return each
    raise AssertionError(having)


def _window(start):
    return window.IntervalWindow(start, start + 10)


TIMES = st.sampled_from([0, 1, 2, 5000])
ALONE = st.sampled_from([(_window(0),), (_window(10),)])
WINDOWS = ALONE | st.just((_window(0), _window(10)))
PANES = st.sampled_from(
    [
        PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, 0),
        PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1),
        PaneInfo(False, False, PaneInfoTiming.LATE, 3, 300),
    ]
)
CUTS = st.lists(st.integers(0, 500), max_size=4)


def _runs(windows):
    """Runs of elements that share their metadata."""
    numbers = st.lists(st.integers(0, 400), max_size=40)
    return st.lists(st.tuples(TIMES, windows, PANES, numbers), max_size=30)


PANE = PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, 0)


def _elements(runs):
    return [
        WindowedValue(value, time, windows, pane)
        for time, windows, pane, values in runs
        for value in values
    ]


def _numbers(count):
    return _elements([(0, (_window(0),), PANE, range(count))])


def _messages(stage, elements, cuts):
    cuts = sorted({0, len(elements), *(cut % (len(elements) + 1) for cut in cuts)})
    return [stage.encoded(elements[a:b]) for a, b in itertools.pairwise(cuts)]


def _user_metrics(outcome):
    return sorted(
        (info.labels["PTRANSFORM"], info.labels["NAME"], info.payload)
        for info in outcome.infos
        if info.urn.startswith("beam:metric:user")
    )


@pytest.fixture
def stage():
    """Makes a stage of steps, which is shut down after the test."""
    made = []

    def stage(steps, kind=ChannelProcessor, having="", **settings):
        made.append(Stage(_between(steps, having), kind, **settings))
        return made[-1]

    yield stage
    for each in made:
        each.processor.shutdown()


def _beams_and_ours(steps):
    descriptor = _between(steps)
    stages = [Stage(descriptor, kind) for kind in BOTH]
    # Begun before the test is, whose threads are counted.
    stages[1].run()
    yield stages
    for each in stages:
        each.processor.shutdown()


@pytest.fixture(scope="module")
def all_steps():
    yield from _beams_and_ours(_steps)


@pytest.fixture(scope="module")
def windowed():
    yield from _beams_and_ours(_windowed_steps)


@settings(max_examples=50, deadline=None)
@given(runs=_runs(WINDOWS), cuts=CUTS)
def test_bytes_and_counts_and_metrics_are_those_of_beam(all_steps, runs, cuts):
    _check(all_steps, runs, cuts)


@settings(max_examples=25, deadline=None)
@given(runs=_runs(ALONE), cuts=CUTS)
def test_windows_and_times_that_steps_give_are_those_of_beam(windowed, runs, cuts):
    _check(windowed, runs, cuts)


def _check(stages, runs, cuts):
    elements = _elements(runs)
    beams, ours = (stage.run(*_messages(stage, elements, cuts)) for stage in stages)
    assert ours.sent == beams.sent
    assert ours.counts == beams.counts
    assert _user_metrics(ours) == _user_metrics(beams)


def test_steps_are_compiled_from_the_channel_to_the_channel(stage):
    stage = stage(lambda n: n | beam.Map(lambda n: n + 1).with_output_types(int))
    source = stage.processor.ops[stage.source]
    (sink,) = (stage.processor.ops[id_] for id_ in stage.sinks)
    # Beam's operations are not asked.
    sink.process = source.output = None
    made = stage.made(stage.run(stage.encoded(_numbers(100))))
    assert [element.value for element in made] == list(range(1, 101))


def test_output_is_sent_before_the_bundle_ends(stage):
    flushed = []
    _CALLED[0] = lambda _: flushed.append(len(stage._channel.inverse()._inputs))
    big = lambda n: bytes(8 << 20)
    stage = stage(lambda n: n | beam.Map(_call) | beam.Map(big).with_output_types(bytes))
    stage.run(stage.encoded(_numbers(4)))
    assert flushed == [0, 0, 1, 1]


def test_sizes_of_elements_are_sampled(stage):
    stages = [stage(_steps, kind) for kind in BOTH]
    beams, ours = (each.run(each.encoded(_numbers(100))) for each in stages)
    assert ours.sized == beams.sized != set()


def test_combined_values_are_those_of_beam(stage):
    """The first phase of a combine, which hands on what it has when the bundle ends."""
    pairs = lambda n: (n % 3, n)
    build = lambda n: n | beam.Map(pairs).with_output_types(tuple[int, int]) | _Sums()
    stages = [stage(build, kind) for kind in BOTH]
    runs = [(0, (_window(at),), PANE, range(at, at + 9)) for at in (0, 10)]
    beams, ours = (each.run(each.encoded(_elements(runs))) for each in stages)
    made, expected = (sorted(map(str, stages[0].made(each))) for each in (ours, beams))
    assert made == expected
    assert ours.counts == beams.counts
    assert len(made) == 6


def test_combined_pairs_whose_coder_shows_no_key_are_those_of_beam(stage):
    """Such are the pairs that come from an edge which does not tell keys apart."""
    ours = stage(lambda n: n | _KeyedBefore() | _Sums(), having="Precombine")
    elements = [WindowedValue((n % 3, n), 0, (_window(0),), PANE) for n in range(9)]
    made = ours.made(ours.run(ours.encoded(elements)))
    assert sorted(each.value for each in made) == [(0, [9]), (1, [12]), (2, [15])]


class _KeyedBefore(beam.PTransform):
    def expand(self, numbers):
        pairs = beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int])
        return numbers | pairs | "Edge" >> beam.Reshuffle()


class _Sums(beam.PTransform):
    def expand(self, pairs):
        return pairs | beam.CombinePerKey(sum)


# --- splits ------------------------------------------------------------------------------------


def _split_at(stage, begun, fraction, size):
    """Splits amid the element ``begun``; the split, and the elements of the bundle."""
    seen = []
    splits = []

    def see(number):
        seen.append(number)
        if number == begun:
            desired = beam_fn_api_pb2.ProcessBundleSplitRequest.DesiredSplit(
                fraction_of_remainder=fraction, estimated_input_elements=size
            )
            request = beam_fn_api_pb2.ProcessBundleSplitRequest(
                instruction_id=stage.processor.current_instruction_id,
                desired_splits={stage.source: desired},
            )
            splits.extend(stage.processor.try_split(request).channel_splits)

    _CALLED[0] = see
    outcome = stage.run(*_messages(stage, _numbers(50), [20, 35]))
    told = [(each.last_primary_element, each.first_residual_element) for each in splits]
    return told, seen, outcome.counts, outcome.sent


_CALLED: list = [None]


def _call(number):
    _CALLED[0](number)
    return number


@pytest.fixture(scope="module")
def calling():
    yield from _beams_and_ours(lambda n: n | beam.Map(_call).with_output_types(int))


@settings(max_examples=40, deadline=None)
@given(begun=st.integers(0, 49), fraction=st.floats(0, 1), size=st.integers(0, 60))
def test_a_bundle_is_split_where_beam_splits_it(calling, begun, fraction, size):
    beams, ours = (_split_at(stage, begun, fraction, size) for stage in calling)
    assert ours == beams
    told, seen, _, _ = ours
    last, _ = told[0] if told else (49, 50)
    assert seen == list(range(min(last, 49) + 1))


class _Operation:
    """What a split sees of Beam's operation, whose elements begin amid the split."""

    def __init__(self, begins):
        self.index = 4
        self.stop = float("inf")
        self.asked = []
        self._begins = list(begins)
        coder = coders.WindowedValueCoder(coders.VarIntCoder(), coders.coders.GlobalWindowCoder())
        self.windowed_coder, self.windowed_coder_impl = coder, coder.get_impl()
        counters = SimpleNamespace(coder_impl=None)
        self.receivers = [SimpleNamespace(opcounter=counters)]

    def try_split(self, fraction):
        self.asked.append(self.index)
        stop = self.index + 1
        self.index += self._begins.pop(0) if self._begins else 0
        self.stop = stop
        return stop - 1, [], [], stop


@pytest.mark.parametrize("begins", [[], [1], [1, 3]])
def test_no_element_that_has_begun_amid_a_split_is_given_away(begins):
    operation = _Operation(begins)
    ChannelSource(operation, None)
    last, _, _, first = operation.try_split(0.0)
    assert operation.index == last == 4 + sum(begins)
    assert operation.stop == first


def test_an_element_that_seems_to_be_given_away_waits_for_the_split():
    operation = _Operation([])
    beams = operation.try_split
    waits = threading.Event()
    answers = []
    source = ChannelSource(operation, None)

    def split(fraction):
        made = beams(fraction)
        if not waits.is_set():
            thread.start()
            while operation.index == 4 and thread.is_alive():
                time.sleep(0)
            waits.set()
        return made

    source._try_split = split
    thread = threading.Thread(target=lambda: answers.append(source._begin()))
    operation.try_split(0.0)
    thread.join()
    assert answers == [True]
    assert (operation.index, operation.stop) == (5, 6)


# --- what is told of user code -------------------------------------------------------------------


def _fail(number):
    if number == 7:
        msg = "seven"
        raise ValueError(msg)
    return number


@pytest.mark.parametrize(
    "steps",
    [
        lambda n: n | "Ok" >> beam.Map(lambda n: n + 1) | "Fails" >> beam.Map(_fail),
        lambda n: n | "Cannot be encoded" >> beam.Map(str).with_output_types(int),
    ],
    ids=["raises", "encodes"],
)
def test_errors_name_their_step_as_beam_does(stage, steps):
    told = []
    for kind in BOTH:
        made = stage(steps, kind)
        with pytest.raises(Exception, match="while running") as failure:
            made.run(made.encoded(_numbers(9)))
        told.append((type(failure.value), str(failure.value)))
    assert told[0] == told[1]


class _Strings(beam.DoFn):
    def process(self, number):
        return str(number)


def test_a_string_in_place_of_elements_is_refused_with_every_beam(stage):
    """Beam 2.74 takes its characters. Beam 2.77 refuses it, with this message."""
    told = []
    for kind in BOTH:
        made = stage(lambda n: n | "Strings" >> beam.ParDo(_Strings()), kind)
        try:
            made.run(made.encoded(_numbers(9)))
        except TypeError as error:
            told.append(str(error))
    assert told[-1].startswith("Returning a str from a ParDo or FlatMap is not allowed. ")
    assert len(set(told)) == 1


def test_elements_that_cannot_be_decoded_are_told_of_with_coder_and_step(stage):
    stage = stage(lambda n: n | beam.Map(_fail))
    good = stage.encoded(_numbers(1))
    with pytest.raises(ValueError, match=r"Coder.* cannot decode"):
        # An integer that has no end.
        stage.run(good[:-2] + b"\x0b" + b"\xff" * 11)


def test_logs_and_status_name_the_step_at_work(stage):
    seen = []

    def look(number):
        from apache_beam.runners.worker import statesampler  # noqa: PLC0415

        state = statesampler.get_current_tracker().current_state()
        info = stage.processor.state_sampler.get_info()
        seen.append((state.name_context.step_name, info.state_name.step_name))
        return number

    _CALLED[0] = look
    build = lambda n: n | "First" >> beam.Map(lambda n: n) | "Second" >> beam.Map(_call)
    stage = stage(build)
    stage.run(stage.encoded(_numbers(2)))
    assert seen == [("Second", "Second")] * 2


def test_times_of_a_chain_are_shared_out_and_forgotten(stage):
    stage = stage(_steps)
    times = stage.processor._times
    times._seen["first", "second"] = 2
    shared = []
    times.shared_out = lambda infos: shared.append(infos) or ["shared"]
    assert stage.processor.monitoring_infos() == ["shared"]
    assert shared[0]
    stage.processor.reset()
    assert not times._seen


def test_bundles_are_counted_anew(all_steps):
    _, ours = all_steps
    once = ours.run(ours.encoded(_numbers(30)))
    again = ours.run(ours.encoded(_numbers(30)))
    assert (once.counts, once.sent) == (again.counts, again.sent)


# --- what is left to Beam ------------------------------------------------------------------------


class _Finalized(beam.DoFn):
    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(lambda: _CALLED[0](number))
        yield number


def test_bundles_are_finalized(stage):
    finalized = []
    _CALLED[0] = finalized.append
    build = lambda n: n | beam.Map(lambda n: n) | beam.ParDo(_Finalized())
    stage = stage(build)
    messages = stage.encoded(_numbers(3))
    processor = stage.processor
    reset, processor.reset = processor.reset, lambda: None
    stage.run(messages)
    assert processor.requires_finalization()
    processor.finalize_bundle()
    reset()
    assert finalized == [0, 1, 2]
    assert not processor.requires_finalization()


class _Batches(beam.DoFn):
    def process_batch(self, batch):
        yield [number + 1 for number in batch]

    def infer_output_type(self, input_element_type):
        return input_element_type

    # Beam finds no types in annotations that are text.
    process_batch.__annotations__.update(batch=list[int], **{"return": Iterator[list[int]]})


class _Ranges(beam.RestrictionProvider):
    def initial_restriction(self, number):
        return OffsetRange(0, number % 3)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, number, restriction):
        return restriction.size()


class _Splittable(beam.DoFn):
    def process(self, number, tracker=beam.DoFn.RestrictionParam(_Ranges())):
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield number
            at += 1


class _Summing(beam.DoFn):
    SUM = CombiningValueStateSpec("sum", sum)

    def process(self, pair, total=beam.DoFn.StateParam(SUM)):
        total.add(pair[1])
        yield total.read()


class _Waking(beam.DoFn):
    WAKES = TimerSpec("wakes", TimeDomain.WATERMARK)

    def process(self, pair, wakes=beam.DoFn.TimerParam(WAKES)):
        wakes.set(pair[1])

    @on_timer(WAKES)
    def wake(self):
        yield 1


def _is_compiled(stage):
    return isinstance(stage.processor.ops[stage.source].consumer[0], CompiledOperation)


def test_a_harness_that_keeps_samples_takes_beams_way(stage):
    sampler = DataSampler(sample_every_sec=0.1)
    try:
        assert not _is_compiled(stage(_steps, data_sampler=sampler))
    finally:
        sampler.stop()


def test_a_channel_that_is_sent_after_some_time_takes_beams_way(stage):
    assert not _is_compiled(stage(_steps, limit=1000))


@pytest.mark.parametrize(
    "steps",
    [
        lambda n: n | beam.Map(lambda n, at=beam.DoFn.TimestampParam: n),
        lambda n: n | beam.ParDo(_Finalized()),
        lambda n: n | beam.Map(lambda n, more: n + more, 3),
        lambda n: n | beam.Map(lambda n, *, more: n + more, more=3),
        lambda n: n | beam.ParDo(_Batches()),
        lambda n: n | beam.ParDo(_Splittable()),
    ],
    ids=["parameters", "finalizers", "arguments", "keywords", "batches", "restrictions"],
)
def test_what_is_not_simple_takes_beams_way(stage, steps):
    stages = [stage(steps, kind) for kind in BOTH]
    assert not _is_compiled(stages[1])
    beams, ours = (each.run(each.encoded(_numbers(9))) for each in stages)
    assert (ours.sent, ours.counts) == (beams.sent, beams.counts)


def _beside(numbers):
    other = numbers.pipeline | "Other" >> beam.Create([1])
    return numbers | "Beside" >> beam.Map(lambda n, more: n, beam.pvalue.AsSingleton(other))


def _keyed(dofn):
    pairs = beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int])
    return lambda n: n | pairs | "Keyed" >> beam.ParDo(dofn)


@pytest.mark.parametrize(
    ("steps", "having"),
    [
        (_beside, "Beside"),
        (_keyed(_Summing()), "Keyed"),
        (_keyed(_Waking()), "Keyed"),
    ],
    ids=["side inputs", "state", "timers"],
)
def test_what_asks_the_runner_for_more_takes_beams_way(stage, steps, having):
    assert not _is_compiled(stage(steps, having=having))


def test_steps_whose_types_are_checked_take_beams_way(stage):
    def checked(numbers):
        made = numbers | beam.Map(lambda n: n).with_output_types(int)
        made.pipeline.visit(TypeCheckVisitor())  # as --runtime_type_check does
        return made

    assert not _is_compiled(stage(checked))


def test_dofns_are_torn_down_and_forgotten():
    from sparkdrain.harness import dofn  # noqa: PLC0415

    before = len(dofn._LOADED)
    stage = Stage(_between(_steps), ChannelProcessor)
    stage.run(stage.encoded(_numbers(1)))
    thread = stage.processor._times._thread
    assert thread.is_alive()
    stage.processor.shutdown()
    assert len(dofn._LOADED) == before
    assert not thread.is_alive()


@pytest.mark.parametrize(("value", "kind"), [("on", ChannelProcessor), ("off", BundleProcessor)])
def test_a_worker_compiles_bundles_unless_the_option_says_no(monkeypatch, value, kind):
    seen = []
    options = {"beam:option:compiled_stages:v1": value}
    monkeypatch.setattr(bundle_processor, "BundleProcessor", BundleProcessor)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(atexit, "register", lambda *_: None)  # a worker ends its process
    monkeypatch.setattr(worker, "_environment", lambda *_: {"PIPELINE_OPTIONS": dumps(options)})
    monkeypatch.setattr(
        sdk_worker_main, "main", lambda _: seen.append(bundle_processor.BundleProcessor)
    )
    worker.worker(argparse.Namespace())
    assert seen == [kind]
