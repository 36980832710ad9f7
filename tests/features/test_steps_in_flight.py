"""DoFns that wait: async def, threads, futures, callbacks, and Beam's AsyncWrapper."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import AsyncIterator  # noqa: TC003 - Beam reads annotations

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.portability.api import metrics_pb2
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.async_dofn import AsyncWrapper
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from engines import compare, gives

import sparkdrain


class Plus(beam.DoFn):
    """Asynchronous in all its methods; asks for a time, a side input and a value."""

    async def setup(self):
        self.base = await self._known(10)

    async def start_bundle(self):
        self.seen = 0

    async def process(self, element, more, time=beam.DoFn.TimestampParam, *, factor=1):
        self.seen += 1
        yield await self._known(element * factor + self.base + more)
        yield beam.pvalue.TaggedOutput("times", time.micros)

    async def finish_bundle(self):
        assert self.seen
        yield beam.transforms.window.GlobalWindows.windowed_value(-1)

    async def teardown(self):
        await asyncio.sleep(0)

    async def _known(self, value):
        await asyncio.sleep(0.001)
        return value


def test_all_methods_may_be_asynchronous(pipeline):
    def build(p):
        more = beam.pvalue.AsSingleton(p | "more" >> beam.Create([100]))
        made = (
            p
            | beam.Create(range(50))
            | beam.Map(lambda x: TimestampedValue(x, x))
            | beam.ParDo(Plus(), more, factor=2).with_outputs("times", main="main")
        )
        plain = made.main | beam.Filter(lambda value: value >= 0)
        return (plain, made.times) | beam.Flatten()

    numbers = [110 + 2 * x for x in range(50)]
    gives(pipeline, build, numbers + [x * 1_000_000 for x in range(50)])


class Kept(beam.DoFn):
    """Results keep the time and the windows of their element, whichever is complete first."""

    async def process(self, element, window=beam.DoFn.WindowParam) -> AsyncIterator[tuple]:
        await asyncio.sleep(0.01 if element % 3 else 0)
        yield element, window.start.seconds()


def test_results_keep_time_and_windows(pipeline):
    def build(p):
        return (
            p
            | beam.Create(range(30))
            | beam.Map(lambda x: TimestampedValue(x, x))
            | beam.WindowInto(FixedWindows(10))
            | beam.ParDo(Kept())
            | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (*pair, w.start.seconds()))
        )

    gives(pipeline, build, [(x, x // 10 * 10, x // 10 * 10) for x in range(30)])


class Blocks(beam.DoFn):
    """Waits in a thread. Results are made while it waits."""

    def process(self, element):
        time.sleep(0.005)
        Metrics.counter("blocks", "calls").inc()
        yield element


class Waits(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(0.005)
        Metrics.counter("blocks", "calls").inc()
        return [element]


class Promises(beam.DoFn):
    """Returns a future, and says so."""

    def setup(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(4)

    def process(self, element) -> concurrent.futures.Future[list[int]]:
        return self.pool.submit(lambda: [element])

    def teardown(self):
        self.pool.shutdown()


class CallsBack(beam.DoFn):
    """Has a library that calls back."""

    def process(self, element) -> sparkdrain.Completion:
        completion = sparkdrain.Completion()
        threading.Timer(0.001, completion.complete, [[element]]).start()
        return completion


@pytest.mark.parametrize(
    "dofn",
    [
        sparkdrain.Concurrently(Blocks(), max_in_flight=20),
        sparkdrain.Concurrently(Waits(), order="input"),
        Waits(),
        Promises(),
        CallsBack(),
    ],
    ids=["threads", "input order", "async def", "futures", "callbacks"],
)
def test_each_way_to_wait_gives_the_same(pipeline, dofn):
    gives(pipeline, lambda p: p | beam.Create(range(60)) | beam.ParDo(dofn), range(60))


def test_metrics_of_elements_in_flight_are_those_of_their_step(pipeline):
    class Twice(beam.DoFn):
        async def process(self, element):
            await asyncio.sleep(0)
            Metrics.counter("mine", "calls").inc()
            yield element

    with pipeline as p:
        made = p | beam.Create(range(20)) | beam.ParDo(Twice())
        made |= beam.ParDo(sparkdrain.Concurrently(Blocks()))
        assert_that(made, equal_to(list(range(20))))
    reports = getattr(pipeline.runner, "reports", None)
    if reports is not None:
        found = {}
        for report in reports:
            for data in report.metrics:
                info = metrics_pb2.MonitoringInfo.FromString(data)
                if info.labels.get("NAME") == "calls":
                    step = info.labels["PTRANSFORM"]
                    found[step] = found.get(step, 0) + info.payload[0]
        assert sorted(found.values()) == [20, 20]


def test_other_runners_process_one_element_after_the_other(pipeline):
    dofn = sparkdrain.Concurrently(Waits(), order="input", retries=1, timeout=5)
    compare(pipeline, lambda p: p | beam.Create(range(20)) | beam.ParDo(dofn))


class Picky(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(0)
        if element % 5 == 0:
            raise ValueError(element)
        return [element]


def test_elements_that_fail_go_to_an_output_of_their_own_everywhere(pipeline):
    def build(p):
        dofn = sparkdrain.Concurrently(Picky(), dead_letter="dead", retries=1, backoff=0)
        made = p | beam.Create(range(20)) | beam.ParDo(dofn).with_outputs("dead", main="good")
        dead = made.dead | beam.Map(lambda letter: (letter[0], letter[1][0].__name__))
        return (made.good, dead) | beam.Flatten()

    good = [x for x in range(20) if x % 5]
    gives(pipeline, build, good + [(x, "ValueError") for x in range(0, 20, 5)])


def test_an_error_names_step_and_line(pipeline):
    def run():
        with pipeline as p:
            _ = p | beam.Create(range(20)) | "picky" >> beam.ParDo(Picky())

    with pytest.raises(Exception, match=r"(?s)while running 'picky'"):
        run()


class Pair(beam.DoFn):
    def process(self, element):
        time.sleep(0.001)
        yield element[0], element[1] * 2


class AsyncPair(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(0.001)
        yield element[0], element[1] * 2


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "asyncio"])
def test_the_dofn_in_beams_wrapper_runs_without_its_timers(pipeline, asynchronous, monkeypatch):
    # No time for a timer can be found, in this process.
    monkeypatch.setattr(AsyncWrapper, "next_time_to_fire", None)
    pairs = [(str(x % 3), x) for x in range(40)]
    inner = AsyncPair() if asynchronous else Pair()
    wrapper = AsyncWrapper(inner, parallelism=8, use_asyncio=asynchronous)
    gives(
        pipeline,
        lambda p: p | beam.Create(pairs) | beam.ParDo(wrapper),
        [(key, value * 2) for key, value in pairs],
    )


class Meets(beam.DoFn):
    """An element is complete when seven others are in flight."""

    def setup(self):
        self.inside = 0

    async def process(self, element):
        self.inside += 1
        for _ in range(2_000):
            if self.inside == 8:
                break
            await asyncio.sleep(0.001)
        yield self.inside


def test_elements_of_a_key_in_beams_wrapper_are_in_flight_together(pipeline):
    wrapper = AsyncWrapper(Meets(), parallelism=8, use_asyncio=True)
    pairs = [("a", x) for x in range(8)]
    gives(
        pipeline,
        lambda p: p | beam.Impulse() | beam.FlatMap(lambda _: pairs) | beam.ParDo(wrapper),
        [8] * 8,
    )
