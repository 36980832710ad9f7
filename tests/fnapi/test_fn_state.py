"""State and timers of DoFns in a harness outside of the slot's process, in batch."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.stages.batch import keyed_rounds
from tests.support.seen import see

TIME, REAL = userstate.TimeDomain.WATERMARK, userstate.TimeDomain.REAL_TIME


class _Numbered(beam.DoFn):
    COUNT = userstate.ReadModifyWriteStateSpec("count", coders.VarIntCoder())
    ALL = userstate.BagStateSpec("all", coders.VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)

    def process(
        self,
        pair,
        count=beam.DoFn.StateParam(COUNT),
        all_=beam.DoFn.StateParam(ALL),
        total=beam.DoFn.StateParam(SUM),
    ):
        count.write((count.read() or 0) + 1)
        all_.add(pair[1])
        total.add(pair[1])
        if count.read() == 5:
            yield pair[0], sorted(all_.read()), total.read()
            all_.clear()
            yield pair[0], list(all_.read()), count.read()


def test_state_is_that_of_the_key(run):
    def build(pipeline):
        pairs = [(key, n) for n in range(5) for key in "abc"]
        return pipeline | beam.Create(pairs) | beam.ParDo(_Numbered()) | beam.Map(see)

    expected = [(key, [0, 1, 2, 3, 4], 10) for key in "abc"] + [(key, [], 5) for key in "abc"]
    assert run(build)[1] == sorted(expected, key=repr)


def test_untyped_pairs_from_before_an_exchange_are_told_apart(run):
    def build(pipeline):
        pairs = pipeline | beam.Create([(key, n) for n in range(5) for key in "abc"])
        untyped = pairs | "Untyped" >> beam.Map(lambda pair: pair).with_output_types(Any)
        return untyped | beam.Reshuffle() | beam.ParDo(_Numbered()) | beam.Map(see)

    expected = [(key, [0, 1, 2, 3, 4], 10) for key in "abc"] + [(key, [], 5) for key in "abc"]
    assert run(build)[1] == sorted(expected, key=repr)


class _Windowed(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair, of=beam.DoFn.WindowParam, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield pair[0], float(of.start), count.read()


def test_state_is_that_of_the_window(run):
    def build(pipeline):
        return (
            pipeline
            | beam.Create([0, 1, 5, 6, 7])
            | beam.Map(lambda n: window.TimestampedValue(("a", n), n))
            | beam.WindowInto(window.FixedWindows(5))
            | beam.ParDo(_Windowed())
            | beam.Map(see)
        )

    assert run(build)[1] == [
        ("a", 0.0, 1),
        ("a", 0.0, 2),
        ("a", 5.0, 1),
        ("a", 5.0, 2),
        ("a", 5.0, 3),
    ]


class _Timed(beam.DoFn):
    """Timers at several times; the first sets one between the others, and takes one back."""

    LOG = userstate.BagStateSpec("log", coders.StrUtf8Coder())
    EVENT = userstate.TimerSpec("event", TIME)
    LATER = userstate.TimerSpec("later", TIME)
    CLOCK = userstate.TimerSpec("clock", REAL)

    def process(
        self,
        pair,
        event=beam.DoFn.TimerParam(EVENT),
        later=beam.DoFn.TimerParam(LATER),
        clock=beam.DoFn.TimerParam(CLOCK),
    ):
        del pair
        for n in (30, 10, 20):
            event.set(Timestamp(n), dynamic_timer_tag=str(n))
        later.set(Timestamp(40))
        clock.set(Timestamp(1))
        yield "processed"

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        time=beam.DoFn.TimestampParam,
        log=beam.DoFn.StateParam(LOG),
        event=beam.DoFn.TimerParam(EVENT),
        later=beam.DoFn.TimerParam(LATER),
    ):
        log.add(f"{tag}@{float(time):.0f}")
        if tag == "10":
            event.set(Timestamp(15), dynamic_timer_tag="between")
            event.clear(dynamic_timer_tag="20")
            later.set(Timestamp(35))
        del key

    @userstate.on_timer(LATER)
    def on_later(self, time=beam.DoFn.TimestampParam, log=beam.DoFn.StateParam(LOG)):
        log.add(f"later@{float(time):.0f}")

    @userstate.on_timer(CLOCK)
    def on_clock(self, key=beam.DoFn.KeyParam, log=beam.DoFn.StateParam(LOG)):
        yield f"{key}: " + " ".join(log.read())


def test_timers_fire_in_the_order_of_time_whatever_callbacks_set_and_clear(run):
    def build(pipeline):
        pairs = [(key, 1) for key in "abc"]
        return pipeline | beam.Create(pairs) | beam.ParDo(_Timed()) | beam.Map(see)

    order = "10@10 between@15 30@30 later@35"
    expected = ["processed"] * 3 + [f"{key}: {order}" for key in "abc"]
    assert run(build)[1] == sorted(expected, key=repr)


class _Loop(beam.DoFn):
    LEFT = userstate.ReadModifyWriteStateSpec("left", coders.VarIntCoder())
    TICK = userstate.TimerSpec("tick", TIME)

    def process(self, pair, left=beam.DoFn.StateParam(LEFT), tick=beam.DoFn.TimerParam(TICK)):
        left.write(pair[1])
        tick.set(Timestamp(1))

    @userstate.on_timer(TICK)
    def on_tick(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        left=beam.DoFn.StateParam(LEFT),
        tick=beam.DoFn.TimerParam(TICK),
    ):
        if left.read():
            left.write(left.read() - 1)
            tick.set(time + 1)
        else:
            yield key, float(time)


def test_timers_that_timers_set_fire_to_the_end(run):
    def build(pipeline):
        return pipeline | beam.Create([("a", 3), ("b", 7)]) | beam.ParDo(_Loop()) | beam.Map(see)

    assert run(build)[1] == [("a", 4.0), ("b", 8.0)]


def test_keys_of_many_rounds_keep_apart(run, monkeypatch):
    monkeypatch.setattr(keyed_rounds, "_KEYS", 8)

    def build(pipeline):
        pairs = [(key, n) for key in range(40) for n in range(2)]
        return (
            pipeline
            | beam.Create(pairs)
            | beam.ParDo(_Windowed())
            | beam.combiners.Count.PerElement()
            | beam.Map(lambda found: (found[0][2], found[1]))
            | beam.CombinePerKey(sum)
            | beam.Map(see)
        )

    assert run(build)[1] == [(1, 40), (2, 40)]
