from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from engines import compare, gives


class _EveryState(beam.DoFn):
    VALUE = userstate.ReadModifyWriteStateSpec("value", StrUtf8Coder())
    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    COUNT = userstate.CombiningValueStateSpec("count", beam.combiners.CountCombineFn())

    def process(
        self,
        element,
        value=beam.DoFn.StateParam(VALUE),
        bag=beam.DoFn.StateParam(BAG),
        distinct=beam.DoFn.StateParam(SET),
        total=beam.DoFn.StateParam(SUM),
        count=beam.DoFn.StateParam(COUNT),
    ):
        key, number = element
        value.write(f"{value.read() or ''}.")
        bag.add(number)
        distinct.add(number % 3)
        total.add(number)
        count.add(number)
        if len(value.read()) == 4:
            yield (
                key,
                value.read(),
                sorted(bag.read()),
                sorted(distinct.read()),
                total.read(),
                count.read(),
            )
            for state in (value, bag, distinct, total, count):
                state.clear()
            yield key, value.read(), list(bag.read()), list(distinct.read()), total.read()


def test_every_kind_of_state_is_kept_per_key(pipeline):
    def build(p):
        pairs = p | beam.Create([(k, n) for n in range(4) for k in ("a", "b")])
        return pairs | beam.ParDo(_EveryState())

    compare(pipeline, build)


class _Ordered(beam.DoFn):
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())
    DONE = userstate.TimerSpec("done", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        ordered=beam.DoFn.StateParam(LIST),
        done=beam.DoFn.TimerParam(DONE),
    ):
        _, number = element
        ordered.add((Timestamp(number % 5), number))
        done.set(Timestamp(100))

    @userstate.on_timer(DONE)
    def fire(self, ordered=beam.DoFn.StateParam(LIST)):
        yield [number for _, number in ordered.read()]
        yield [number for _, number in ordered.read_range(Timestamp(1), Timestamp(3))]
        ordered.clear_range(Timestamp(0), Timestamp(4))
        yield [number for _, number in ordered.read()]


def test_an_ordered_list_is_read_and_cleared_by_time(pipeline):
    def build(p):
        return p | beam.Create([("k", n) for n in (4, 3, 2, 1, 0)]) | beam.ParDo(_Ordered())

    gives(pipeline, build, [[0, 1, 2, 3, 4], [1, 2], [4]])


class _Count(beam.DoFn):
    SEEN = userstate.CombiningValueStateSpec("seen", sum)

    def process(self, element, w=beam.DoFn.WindowParam, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(1)
        yield element[0], float(w.start), seen.read()


def test_state_is_kept_per_window(pipeline):
    def build(p):
        timed = (
            p
            | beam.Create([1, 2, 6, 7, 8])
            | beam.Map(lambda t: window.TimestampedValue(("k", t), t))
        )
        return timed | beam.WindowInto(window.SlidingWindows(10, 5)) | beam.ParDo(_Count())

    compare(pipeline, build)


class _Timers(beam.DoFn):
    """Tells when its timers fire."""

    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    OTHER = userstate.TimerSpec("other", TimeDomain.WATERMARK)
    LOG = userstate.BagStateSpec("log", StrUtf8Coder())

    def process(
        self,
        element,
        event=beam.DoFn.TimerParam(EVENT),
        other=beam.DoFn.TimerParam(OTHER),
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"element {element[1]}")
        event.set(Timestamp(20))
        other.set(Timestamp(10))
        event.set(Timestamp(element[1]), dynamic_timer_tag="early")
        event.set(Timestamp(15), dynamic_timer_tag="cleared")
        event.clear(dynamic_timer_tag="cleared")

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        other=beam.DoFn.TimerParam(OTHER),
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"event {tag} {float(at)}")
        if at == Timestamp(20):
            other.set(Timestamp(30))

    @userstate.on_timer(OTHER)
    def on_other(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.TimestampParam,
        log=beam.DoFn.StateParam(LOG),
    ):
        log.add(f"other {float(at)}")
        if at == Timestamp(30):
            yield key, list(log.read())


def test_event_time_timers_fire_in_time_order_after_the_input_of_their_key(pipeline):
    def build(p):
        return p | beam.Create([("a", 5), ("b", 12)]) | beam.ParDo(_Timers())

    gives(
        pipeline,
        build,
        [
            ("a", ["element 5", "event early 5.0", "other 10.0", "event  20.0", "other 30.0"]),
            ("b", ["element 12", "other 10.0", "event early 12.0", "event  20.0", "other 30.0"]),
        ],
    )


class _Loop(beam.DoFn):
    TICK = userstate.TimerSpec("tick", TimeDomain.WATERMARK)

    def process(self, element, tick=beam.DoFn.TimerParam(TICK)):
        tick.set(Timestamp(1))

    @userstate.on_timer(TICK)
    def on_tick(self, at=beam.DoFn.TimestampParam, tick=beam.DoFn.TimerParam(TICK)):
        yield int(at)
        if at < Timestamp(5):
            tick.set(at + 1)


def test_a_timer_may_set_itself_again(pipeline):
    def build(p):
        return p | beam.Create([("k", 0)]) | beam.ParDo(_Loop())

    gives(pipeline, build, [1, 2, 3, 4, 5])


class _ProcessingTime(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.REAL_TIME)
    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    LEFT = userstate.BagStateSpec("left", VarIntCoder())

    def process(
        self,
        element,
        timer=beam.DoFn.TimerParam(TIMER),
        event=beam.DoFn.TimerParam(EVENT),
        left=beam.DoFn.StateParam(LEFT),
    ):
        left.add(element[1])
        timer.set(Timestamp.now() + 3600)
        event.set(Timestamp(50))

    @userstate.on_timer(EVENT)
    def on_event(self, left=beam.DoFn.StateParam(LEFT)):
        yield "event", sorted(left.read())

    @userstate.on_timer(TIMER)
    def on_timer(self, key=beam.DoFn.KeyParam, left=beam.DoFn.StateParam(LEFT)):
        yield key, sorted(left.read())


def test_a_processing_time_timer_that_is_pending_fires_at_the_end(pipeline):
    def build(p):
        return p | beam.Create([("k", 2), ("k", 1)]) | beam.ParDo(_ProcessingTime())

    gives(pipeline, build, [("k", [1, 2]), ("event", [1, 2])])


class _AtWindowEnd(beam.DoFn):
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)
    SUM = userstate.CombiningValueStateSpec("sum", sum)

    def process(
        self,
        element,
        w=beam.DoFn.WindowParam,
        end=beam.DoFn.TimerParam(END),
        total=beam.DoFn.StateParam(SUM),
    ):
        total.add(element[1])
        end.set(w.end)

    @userstate.on_timer(END)
    def at_end(
        self,
        key=beam.DoFn.KeyParam,
        w=beam.DoFn.WindowParam,
        at=beam.DoFn.TimestampParam,
        total=beam.DoFn.StateParam(SUM),
    ):
        yield key, str(w), float(at), total.read()


def test_a_timer_at_the_end_of_each_window_sees_the_state_of_its_window(pipeline):
    def build(p):
        timed = (
            p
            | beam.Create([1, 2, 6, 11])
            | beam.Map(lambda t: window.TimestampedValue((t % 2, t), t))
        )
        return timed | beam.WindowInto(window.FixedWindows(5)) | beam.ParDo(_AtWindowEnd())

    compare(pipeline, build)


def test_what_a_timer_emits_is_grouped_in_its_window(pipeline):
    def build(p):
        timed = (
            p
            | beam.Create([1, 2, 6, 11])
            | beam.Map(lambda t: window.TimestampedValue((t % 2, t), t))
        )
        ends = timed | beam.WindowInto(window.FixedWindows(5)) | beam.ParDo(_AtWindowEnd())
        keyed = ends | "key" >> beam.Map(lambda e: (e[1], e[3]))
        return keyed | beam.CombinePerKey(sum)

    compare(pipeline, build)


class _InOrder(beam.DoFn):
    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(self, element, last=beam.DoFn.StateParam(LAST)):
        key, number = element
        yield key, number, last.read()
        last.write(number)


def test_many_keys_do_not_see_each_others_state(pipeline):
    def build(p):
        pairs = p | beam.Create(range(300)) | beam.Map(lambda n: (n % 100, n))
        counted = pairs | beam.ParDo(_InOrder()) | beam.Map(lambda e: (e[0], e[2] is None))
        return counted | beam.Filter(lambda e: e[1]) | beam.combiners.Count.Globally()

    gives(pipeline, build, [100])


def test_two_stateful_dofns_in_a_row_keep_their_own_state(pipeline):
    def build(p):
        pairs = p | beam.Create([("a", 1), ("a", 1), ("b", 1)])
        first = pairs | "first" >> beam.ParDo(_Count())
        again = first | "key" >> beam.Map(lambda e: ("all", e[2]))
        return again | "second" >> beam.ParDo(_Count()) | "last" >> beam.Map(lambda e: e[2])

    gives(pipeline, build, [1, 2, 3])


class _Buffer(beam.DoFn):
    """What a bundle ends with must not hold on to a key."""

    BUFFER = userstate.BagStateSpec("buffer", VarIntCoder())
    FLUSH = userstate.TimerSpec("flush", TimeDomain.WATERMARK)

    def setup(self):
        self.seen = 0

    def process(
        self,
        element,
        buffer=beam.DoFn.StateParam(BUFFER),
        flush=beam.DoFn.TimerParam(FLUSH),
    ):
        self.seen += 1
        buffer.add(element[1])
        flush.set(window.GlobalWindow().max_timestamp())

    @userstate.on_timer(FLUSH)
    def at_flush(self, key=beam.DoFn.KeyParam, buffer=beam.DoFn.StateParam(BUFFER)):
        yield key, sorted(buffer.read())


def test_a_timer_at_the_end_of_time_fires(pipeline):
    def build(p):
        pairs = p | beam.Create([("a", 2), ("b", 5), ("a", 1)])
        return pairs | beam.ParDo(_Buffer())

    gives(pipeline, build, [("a", [1, 2]), ("b", [5])])


def test_keys_need_a_pair(pipeline):
    with pytest.raises(Exception, match=r"[Kk]ey"), pipeline as p:
        _ = p | beam.Create([1]) | beam.ParDo(_Count())


class _OutputTime(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        timer.set(Timestamp(7))

    @userstate.on_timer(TIMER)
    def fire(self, at=beam.DoFn.TimestampParam):
        yield "now"
        yield window.TimestampedValue("later", at + 10)


def test_what_a_timer_emits_has_the_time_of_the_timer_or_its_own(pipeline):
    def build(p):
        fired = p | beam.Create([("k", 0)]) | beam.ParDo(_OutputTime())
        return fired | beam.Map(lambda e, t=beam.DoFn.TimestampParam: (e, float(t)))

    compare(pipeline, build)


class _Sorted(beam.DoFn):
    SEEN = userstate.CombiningValueStateSpec("seen", sum)

    def process(self, element, at=beam.DoFn.TimestampParam, seen=beam.DoFn.StateParam(SEEN)):
        seen.add(1)
        yield element[1], seen.read()


def test_a_stateful_dofn_after_a_grouping_and_before_one(pipeline):
    def build(p):
        pairs = p | beam.Create([("a", 1), ("a", 2), ("b", 3)])
        grouped = pairs | "before" >> beam.GroupByKey()
        sizes = grouped | "sizes" >> beam.MapTuple(lambda k, v: (k, len(list(v))))
        counted = sizes | beam.ParDo(_Sorted())
        regrouped = counted | "after" >> beam.GroupByKey()
        return regrouped | "listed" >> beam.MapTuple(lambda k, v: (k, list(v)))

    gives(pipeline, build, [(2, [1]), (1, [1])])
