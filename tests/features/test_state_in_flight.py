"""DoFns that wait, and have state and timers: keys side by side, each as if it was alone."""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections import Counter
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import metrics_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from engines import ENGINES, gives, on_fn_api_runner

import sparkdrain
from sparkdrain.harness.bundle import StageBundle
from sparkdrain.harness.compiled.tracker import StepTracker
from sparkdrain.harness.concurrent.tracker import STEP
from sparkdrain.map_state import MapStateSpec

BUSY: Counter[object] = Counter()
MOST: Counter[str] = Counter()


async def alone(key):
    """Waits for a while, in which nothing else may be done for the key."""
    assert not BUSY[key], f"{key} is at work already"
    BUSY[key] += 1
    MOST["side by side"] = max(MOST["side by side"], sum(BUSY.values()))
    await asyncio.sleep(random.choice((0, 0.001, 0.003)))
    BUSY[key] -= 1


class Accounts(beam.DoFn):
    """Reads, waits and writes, so that keys that share a cell would show."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())
    ALL = userstate.BagStateSpec("all", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", combine_fn=sum)
    SEEN = userstate.SetStateSpec("seen", VarIntCoder())
    BY_TIME = userstate.OrderedListStateSpec("by time", VarIntCoder())
    BY_NAME = MapStateSpec("by name", StrUtf8Coder(), VarIntCoder())
    AT_END = userstate.TimerSpec("at end", TimeDomain.WATERMARK)
    LATER = userstate.TimerSpec("later", TimeDomain.WATERMARK)

    async def process(
        self,
        element,
        time=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        last=beam.DoFn.StateParam(LAST),
        every=beam.DoFn.StateParam(ALL),
        total=beam.DoFn.StateParam(SUM),
        seen=beam.DoFn.StateParam(SEEN),
        by_time=beam.DoFn.StateParam(BY_TIME),
        by_name=beam.DoFn.StateParam(BY_NAME),
        at_end=beam.DoFn.TimerParam(AT_END),
        later=beam.DoFn.TimerParam(LATER),
    ):
        key, value = element
        before = last.read()
        await alone(key)
        every.add(value)
        seen.add(value % 3)
        await asyncio.sleep(0)
        total.add(value)
        by_time.add((time, value))
        by_name.put(str(value % 2), value)
        last.write(value)
        at_end.set(window.end)
        later.set(window.end, dynamic_timer_tag=str(value % 2))
        yield key, "before", before

    @userstate.on_timer(AT_END)
    async def tell(
        self,
        key=beam.DoFn.KeyParam,
        last=beam.DoFn.StateParam(LAST),
        every=beam.DoFn.StateParam(ALL),
        total=beam.DoFn.StateParam(SUM),
        seen=beam.DoFn.StateParam(SEEN),
        by_time=beam.DoFn.StateParam(BY_TIME),
        by_name=beam.DoFn.StateParam(BY_NAME),
    ):
        await alone(key)
        yield key, "last", last.read()
        yield key, "all", list(every.read()), total.read(), sorted(seen.read())
        yield key, "by time", [value for _, value in by_time.read()]
        yield key, "by name", sorted(by_name.items())
        last.clear()

    @userstate.on_timer(LATER)
    def count(self, key=beam.DoFn.KeyParam, tag=beam.DoFn.DynamicTimerTagParam):
        return [(key, "later", tag)]


def accounts(keys, values, width):
    """What ``Accounts`` makes of so many keys with so many values each, in windows."""
    made = []
    for key in range(keys):
        for start in range(0, values, width):
            here = list(range(start, min(start + width, values)))
            made += [(key, "before", x) for x in [None, *here[:-1]]]
            made.append((key, "last", here[-1]))
            made.append((key, "all", here, sum(here), sorted({x % 3 for x in here})))
            made.append((key, "by time", here))
            names = {str(x % 2): x for x in here}
            made.append((key, "by name", sorted(names.items())))
            made += [(key, "later", tag) for tag in names]
    return made


@pytest.mark.parametrize("most", [1, 7])
def test_keys_run_side_by_side_and_each_as_if_it_was_alone(pipeline, most):
    BUSY.clear()
    MOST.clear()

    def build(p):
        return (
            p
            | beam.Impulse()
            | beam.FlatMap(lambda _: [(k, v) for v in range(12) for k in range(40)])
            | beam.Map(lambda element: TimestampedValue(element, element[1]))
            | beam.WindowInto(FixedWindows(5))
            | beam.ParDo(sparkdrain.Concurrently(Accounts(), max_in_flight=most))
        )

    gives(pipeline, build, accounts(40, 12, 5))
    if MOST:  # else they were counted in another process
        assert MOST["side by side"] <= most
        assert most == 1 or MOST["side by side"] > 1


class Twice(beam.DoFn):
    """Sets a timer in a callback; one callback takes the timer of the other back."""

    async def setup(self):
        self.loop = asyncio.get_running_loop()

    async def finish_bundle(self):
        assert self.loop is asyncio.get_running_loop()

    FIRST = userstate.TimerSpec("first", TimeDomain.WATERMARK)
    NEXT = userstate.TimerSpec("next", TimeDomain.WATERMARK)
    NEVER = userstate.TimerSpec("never", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)
    COUNT = userstate.CombiningValueStateSpec("count", combine_fn=sum)

    async def process(
        self,
        element,
        first=beam.DoFn.TimerParam(FIRST),
        never=beam.DoFn.TimerParam(NEVER),
        clock=beam.DoFn.TimerParam(CLOCK),
        count=beam.DoFn.StateParam(COUNT),
    ):
        await asyncio.sleep(0)
        assert self.loop is asyncio.get_running_loop()
        first.set(10)
        never.set(30)
        clock.set(5)
        count.add(1)

    @userstate.on_timer(FIRST)
    async def at_first(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        then=beam.DoFn.TimerParam(NEXT),
        never=beam.DoFn.TimerParam(NEVER),
    ):
        await alone(key)
        then.set(20)
        never.clear()
        yield key, "first", time.micros // 1_000_000

    @userstate.on_timer(NEXT)
    async def at_next(self, key=beam.DoFn.KeyParam, count=beam.DoFn.StateParam(COUNT)):
        await alone(key)
        return [(key, "next", count.read())]

    @userstate.on_timer(NEVER)
    async def at_never(self, key=beam.DoFn.KeyParam):
        return [(key, "never")]

    @userstate.on_timer(CLOCK)
    async def at_clock(self, key=beam.DoFn.KeyParam):
        await alone(key)
        return [(key, "clock")]


def test_timers_of_a_key_fire_one_after_the_other(pipeline):
    BUSY.clear()
    made = [(k, *rest) for k in range(30) for rest in [("first", 10), ("next", 3), ("clock",)]]
    elements = [(k, v) for v in range(3) for k in range(30)]
    gives(pipeline, lambda p: p | beam.Create(elements) | beam.ParDo(Twice()), made)


class Sums(beam.DoFn):
    """As plain as can be, beside a DoFn that waits."""

    SUM = userstate.CombiningValueStateSpec("sum", combine_fn=sum)

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        total.add(element[1])
        yield "sums", element[0], total.read()


class SlowSums(Sums):
    async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
        await asyncio.sleep(0.001)
        total.add(element[1])
        yield "sums", element[0], total.read()


def test_dofns_that_wait_share_their_input_with_others(pipeline):
    elements = [(k, v) for v in range(4) for k in range(9)]

    def build(p, kinds=(SlowSums, Sums, SlowSums)):
        keyed = p | beam.Impulse() | beam.FlatMap(lambda _: elements)
        made = [keyed | f"{n}" >> beam.ParDo(kind()) for n, kind in enumerate(kinds)]
        return [*made, keyed | beam.Map(lambda element: ("plain", *element))] | beam.Flatten()

    gives(pipeline, build, on_fn_api_runner(lambda p: build(p, (Sums, Sums, Sums))))


class Counts(SlowSums):
    async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
        await asyncio.sleep(0.002 if element[0] % 2 else 0)
        Metrics.counter("mine", type(self).__name__).inc()


class CountsToo(Counts):
    pass


def test_metrics_of_keys_in_flight_are_those_of_their_step():
    """Two steps share the loop: each goes on while the other is waited for."""
    with ENGINES["compiled"]() as p:
        pairs = p | beam.Create([(k, 1) for k in range(30)])
        _ = pairs | "one" >> beam.ParDo(Counts()), pairs | "two" >> beam.ParDo(CountsToo())
    found = Counter()
    for report in p.runner.reports:
        for info in map(metrics_pb2.MonitoringInfo.FromString, report.metrics):
            if info.labels.get("NAMESPACE") == "mine":
                found[info.labels["NAME"], info.labels["PTRANSFORM"]] += info.payload[0]
    assert sorted(found.values()) == [30, 30], found
    assert len({step for _, step in found}) == 2


def test_a_task_has_the_state_of_its_step_and_other_code_that_of_the_stage():
    sampler = SimpleNamespace(tracked_thread=None, current_state=lambda: "of the stage")
    tracker = StepTracker(sampler)

    def in_task_of(stage: object) -> str:
        step = SimpleNamespace(sampler=stage, current_state=lambda: "of the step")
        context = contextvars.copy_context()
        context.run(STEP.set, step)
        return context.run(tracker.current_state)

    assert in_task_of(sampler) == "of the step"
    assert in_task_of(object()) == tracker.current_state() == "of the stage"


def test_a_plain_process_may_have_timers_that_wait(pipeline):
    class Late(beam.DoFn):
        TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

        def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
            timer.set(3)

        @userstate.on_timer(TIMER)
        async def fires(self, key=beam.DoFn.KeyParam):
            await asyncio.sleep(0)
            yield key

    gives(pipeline, lambda p: p | beam.Create([("a", 1), ("b", 2)]) | beam.ParDo(Late()), "ab")


def test_an_error_of_a_key_in_flight_names_the_key(pipeline):
    class Fails(SlowSums):
        async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
            await asyncio.sleep(0.001)
            if element[0] == 5:
                raise ConnectionError(element[1])

    with pytest.raises(Exception, match=r"(?s)key 5.*") as raised, pipeline as p:
        _ = p | beam.Create([(k, k) for k in range(9)]) | "Calls" >> beam.ParDo(Fails())
    assert "Calls" in str(raised.value)


def test_calls_in_flight_are_given_up_when_another_key_fails(pipeline):
    class Hangs(SlowSums):
        async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
            total.add(1)
            await asyncio.sleep(60 if element[0] else 0.01)
            raise ConnectionError

    began = time.monotonic()
    with pytest.raises(Exception, match="key 0"), pipeline as p:
        _ = (
            p
            | beam.Impulse()
            | beam.FlatMap(lambda _: [(k, k) for k in range(50)])
            | beam.ParDo(Hangs())
        )
    assert time.monotonic() - began < 30  # most of it is Spark's


def test_a_limit_holds_for_each_element_of_a_key(pipeline):
    class Naps(SlowSums):
        async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
            total.add(element[1])
            await asyncio.sleep(60 if element == (3, 7) else 0.1)

    elements = [(k, v) for k in range(5) for v in range(8)]
    dofn = sparkdrain.Concurrently(Naps(), timeout=0.5)
    with pytest.raises(Exception, match=r"longer than 0\.5 s.*(?s:.*)key 3"), pipeline as p:
        _ = p | beam.Impulse() | beam.FlatMap(lambda _: elements) | beam.ParDo(dofn)


BUNDLES: list[StageBundle] = []
TOLD: list[tuple[str, int | None, str]] = []


class Looks(SlowSums):
    """Has one key wait longer than another, which tells what is to be seen of that."""

    async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
        total.add(1)
        await asyncio.sleep(0.05 if element[0] == 1 else 0.01)
        if element[0] == 2:
            for bundle in BUNDLES:
                step, key = bundle.at_work()
                if step == "Looks":
                    (_, _, function), *_ = bundle.stack()
                    TOLD.append((step, VarIntCoder().decode(key), function))


def test_the_key_that_waits_longest_is_told(monkeypatch):
    def start(bundle, plain=StageBundle.start):
        BUNDLES.append(bundle)
        plain(bundle)

    monkeypatch.setattr(StageBundle, "start", start)
    with ENGINES["compiled"]() as p:
        pairs = beam.FlatMap(lambda _: [(1, 1), (2, 2)]).with_output_types(tuple[int, int])
        _ = p | beam.Impulse() | pairs | "Looks" >> beam.ParDo(Looks())
    assert set(TOLD) == {("Looks", 1, "sleep")}


def test_state_that_is_used_after_its_turn_is_an_error(pipeline):
    class Keeps(SlowSums):
        async def process(self, element, total=beam.DoFn.StateParam(Sums.SUM)):
            await asyncio.sleep(0)
            if element[0]:
                self.kept.read()
            self.kept = total

    with pytest.raises(Exception, match="no key has its turn"), pipeline as p:
        dofn = sparkdrain.Concurrently(Keeps(), max_in_flight=1)
        _ = p | beam.Create([(0, 0), (1, 1)]) | beam.ParDo(dofn)


def test_other_runners_process_state_one_element_after_the_other():
    with beam.Pipeline(FnApiRunner(), PipelineOptions([])) as p:
        made = p | beam.Create([(1, 2), (1, 2)])
        made |= beam.ParDo(sparkdrain.Concurrently(SlowSums()))
        assert_that(made, equal_to([("sums", 1, 2), ("sums", 1, 4)]))


@pytest.mark.parametrize(
    ("dofn", "settings", "error"),
    [
        (Sums(), {}, "which threads cannot share: make its process an async def"),
        (SlowSums(), {"retries": 1}, "leave retries and dead_letter out"),
        (SlowSums(), {"dead_letter": "bad"}, "leave retries and dead_letter out"),
        (SlowSums(), {"order": "input"}, "leave order out"),
    ],
)
def test_what_state_cannot_have_is_refused_where_it_is_written(dofn, settings, error):
    with pytest.raises((TypeError, ValueError), match=error):
        sparkdrain.Concurrently(dofn, **settings)
