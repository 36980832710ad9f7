"""Parts of the restrictions that an SDK harness works on can be given to another slot."""

from __future__ import annotations

import logging
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments

from sparkdrain.fnapi import inlet
from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.fnapi.inlet import LentInlet
from sparkdrain.loopback import loopback_pool
from sparkdrain.stages.batch.slot import BatchSlot
from tests.support.in_memory import run_in_memory
from tests.support.restrictions import Count, Ranges, Whole

SEEN: list = []
BUNDLES: list = []
SPLIT = threading.Event()
# How far the DoFn gets by itself.
HALF = 50


class _Waits(Count):
    """Counts to the half of a hundred, and goes on when something was split off."""

    def start_bundle(self):
        BUNDLES.append(0)

    def process(self, element, tracker=Count.process.__defaults__[0]):
        for number in super().process(element, tracker):
            if number == HALF:
                assert SPLIT.wait(60)
            BUNDLES[-1] += 1
            yield number


def _see(number):
    SEEN.append(number)


@pytest.fixture
def run_over_loopback():
    """Runs a DoFn on ranges, in one slot."""

    def run(ranges, dofn):
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create(ranges) | beam.ParDo(dofn) | beam.Map(_see)
        environment = environments.ExternalEnvironment(
            loopback_pool(), capabilities=environments.python_sdk_capabilities()
        )
        harnesses = Harnesses()
        try:
            outside = Outside(HarnessJob("job", {}), harnesses)
            run_in_memory(pipeline, 1, environment=environment, outside=outside)
        finally:
            harnesses.close()

    return run


@pytest.fixture
def run(monkeypatch, run_over_loopback):
    """Runs a pipeline; what could be split off amid its restrictions is fed afterwards."""

    def run(ranges, *keeps, dofn=None):
        given: list = []
        threads: list = []
        SEEN.clear()
        BUNDLES.clear()
        SPLIT.clear()

        def take(inlet):
            while HALF - 1 not in SEEN:
                time.sleep(0.01)
            given.extend(rest for keep in keeps for rest in inlet.split(keep))
            SPLIT.set()

        feed = LentInlet.feed_windowed

        def watched(inlet, elements):
            if not SPLIT.is_set() and not threads:
                threads.append(threading.Thread(target=take, args=(inlet,)))
                threads[0].start()
            feed(inlet, elements)
            if SPLIT.is_set() and threads:
                threads.pop().join()
                feed(inlet, given)

        monkeypatch.setattr(LentInlet, "feed_windowed", watched)
        run_over_loopback(ranges, dofn or _Waits())
        return given

    return run


def test_a_part_of_the_restriction_at_work_is_given_away(run):
    assert len(run([(0, 100)], 0.5)) == 1
    assert sorted(SEEN) == list(range(100))
    # Of what was left, half was given away.
    assert [count for count in BUNDLES if count] == [75, 25]


def test_whole_restrictions_that_wait_in_the_harness_are_given_away(run, monkeypatch):
    monkeypatch.setattr(inlet, "_BUNDLE_SECONDS", 60.0)
    # Short ones come in bundles of 1, 2 and 4, so the long one has 7 others behind it.
    before, after = range(200, 207), range(300, 307)
    ranges = [(n, n + 1) for n in before] + [(0, 100)] + [(n, n + 1) for n in after]
    assert len(run(ranges, 0.5, 0.0)) == 1 + len(after)
    assert sorted(SEEN) == sorted([*before, *range(100), *after])
    assert [count for count in BUNDLES if count][:4] == [1, 2, 4, HALF + 1]


class _WaitsWhole(_Waits):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Whole())):
        return super().process(element, tracker)


def test_a_batch_job_whose_work_cannot_be_shared_says_so_once_and_goes_on(run, caplog):
    with caplog.at_level(logging.WARNING, "sparkdrain.fnapi.harness"):
        assert run([(0, 100)], 0.5, 0.5, dofn=_WaitsWhole()) == []
    assert sorted(SEEN) == list(range(100))
    (told,) = [each for each in caplog.records if each.name == "sparkdrain.fnapi.harness"]
    assert "KeyError: 0.5" in told.getMessage()


class _TwoTurns(beam.DoFn):
    """Puts the second half of each restriction off."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        position = tracker.current_restriction().start
        assert tracker.try_claim(position)
        yield position
        if position + 1 < element[1]:
            tracker.defer_remainder()


def test_restrictions_that_are_put_off_keep_no_other_waiting(run_over_loopback):
    SEEN.clear()
    run_over_loopback([(n, n + 2) for n in (0, 10, 20)], _TwoTurns())
    assert sorted(SEEN[:3]) == [0, 10, 20]
    assert sorted(SEEN[3:]) == [1, 11, 21]


class _Ends(beam.DoFn):
    def process(self, element):
        pass

    def finish_bundle(self):
        SEEN.append("ended")


class _Lending:
    gifts = 0

    def close(self):
        SEEN.append("closed")


def test_a_slot_may_be_asked_for_restrictions_until_its_bundles_have_ended(monkeypatch):
    SEEN.clear()
    monkeypatch.setattr(BatchSlot, "_lend", lambda *_: _Lending())
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | beam.Reshuffle() | beam.ParDo(_Ends())
    run_in_memory(pipeline, 1)
    assert SEEN[-2:] == ["ended", "closed"]


class _Slow(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        for number in Count().process(element, tracker):
            time.sleep(0.01)
            SEEN.append((number, threading.get_ident()))
            yield number


@pytest.mark.spark
def test_on_spark_an_idle_slot_helps_with_a_long_restriction_behind_short_ones():
    SEEN.clear()
    options = PipelineOptions(
        ["--spark_master_url=local[2]", "--environment_type=LOOPBACK", "--progress=off"],
        runner="sparkdrain.SparkDrainRunner",
    )
    with beam.Pipeline(options=options) as pipeline:
        ranges = [(n, n + 2) for n in range(1000, 1012, 2)] + [(0, 700)]
        _ = pipeline | beam.Create(ranges) | beam.ParDo(_Slow())
    assert sorted(n for n, _ in SEEN) == [*range(700), *range(1000, 1012)]
    # A bundle is processed by one thread.
    assert len({thread for n, thread in SEEN if n < 700}) > 1
