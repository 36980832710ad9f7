"""Random pipelines and random streams: what the laws of streaming are tried on."""

from __future__ import annotations

import json
from collections import Counter

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.portability.api import metrics_pb2
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, userstate, window
from hypothesis import strategies as st

WINDOWS = {
    "fixed": lambda: window.FixedWindows(10),
    "sliding": lambda: window.SlidingWindows(12, 4),
    "sessions": lambda: window.Sessions(5),
    "global": window.GlobalWindows,
}


class Twice(beam.DoFn):
    def process(self, element):
        key, value = element
        yield element
        yield key, value + 1


class TotalAtEndOfWindow(beam.DoFn):
    """Adds values up, and tells the total when the window ends."""

    TOTAL = userstate.CombiningValueStateSpec("total", VarIntCoder(), sum)
    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        seen=beam.DoFn.StateParam(SEEN),
        end=beam.DoFn.TimerParam(END),
    ):
        total.add(element[1])
        seen.add(element[1])
        end.set(w.max_timestamp())

    @userstate.on_timer(END)
    def tell(
        self,
        key=beam.DoFn.KeyParam,
        total=beam.DoFn.StateParam(TOTAL),
        seen=beam.DoFn.StateParam(SEEN),
    ):
        yield key, total.read() + len(list(seen.read()))


class TotalWithOthers(beam.DoFn):
    """The same of sums of what comes and a side input, and of what is different in them."""

    TOTAL = userstate.ReadModifyWriteStateSpec("total with others", VarIntCoder())
    VARIED = userstate.SetStateSpec("varied", VarIntCoder())
    END = userstate.TimerSpec("end with others", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        others,
        w=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
        end=beam.DoFn.TimerParam(END),
    ):
        total.write((total.read() or 0) + element[1] + sum(other[1] for other in others))
        varied.add(element[1] % 5)
        end.set(w.max_timestamp())

    @userstate.on_timer(END)
    def tell(
        self,
        key=beam.DoFn.KeyParam,
        total=beam.DoFn.StateParam(TOTAL),
        varied=beam.DoFn.StateParam(VARIED),
    ):
        yield key, total.read() + 3 * sum(varied.read())


# On a PCollection of (key, number); each keeps it one.
EACH = {
    "map": lambda p: p | beam.MapTuple(lambda k, v: (k, 3 * v + 1)),
    "filter": lambda p: p | beam.Filter(lambda kv: kv[1] % 3),
    "twice": lambda p: p | beam.ParDo(Twice()),
    "reshuffle": lambda p: p | beam.Reshuffle(),
    "side input": lambda p: (
        p
        | beam.Map(
            lambda kv, others: (kv[0], kv[1] + sum(other[1] for other in others)),
            others=beam.pvalue.AsIter(p),
        )
    ),
    "both ways": lambda p: (p, p | beam.MapTuple(lambda k, v: (k + "x", v))) | beam.Flatten(),
}
GROUPED = {
    "sum per key": lambda p: p | beam.CombinePerKey(sum),
    "group": lambda p: (
        p | beam.GroupByKey() | beam.MapTuple(lambda k, vs: (k, sum(vs) + 7 * len(list(vs))))
    ),
    "cogroup": lambda p: (
        (p, p | "Other" >> beam.MapTuple(lambda k, v: (k, -v)))
        | beam.CoGroupByKey()
        | beam.MapTuple(lambda k, vs: (k, 2 * sum(vs[0]) + sum(vs[1])))
    ),
    "state": lambda p: p | beam.ParDo(TotalAtEndOfWindow()),
    "state and side input": lambda p: p | beam.ParDo(TotalWithOthers(), beam.pvalue.AsIter(p)),
}


def sound(windowing, each, grouped):
    """The steps that have one right answer in such windows, however the watermark moves."""
    if windowing != "sessions":
        return each, grouped
    # Windows that merge have no side input windows. And what timers send when their own windows
    # end may come too late to be merged with each other: nothing may merge after them.
    kept = [name for name in grouped if not name.startswith("state")]
    ending = ["state"] if "state" in grouped else []
    return [name for name in each if name != "side input"], kept + ending


class Named(beam.PTransform):
    def __init__(self, function) -> None:
        super().__init__()
        self._function = function

    def expand(self, collection):
        return self._function(collection)


def count(element, w=beam.DoFn.WindowParam):
    """The result: metrics of undone rounds do not count, files would."""
    Metrics.counter("out", json.dumps([*element, repr(w)])).inc()


def build(pipeline, source, windowing, each, grouped, more=None):
    collection = pipeline | Named(source)
    # In truth streams end; Beam refuses to group what is unbounded and global.
    collection.is_bounded = True
    collection = collection | beam.WindowInto(
        WINDOWS[windowing](),
        trigger=trigger.DefaultTrigger(),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    for number, name in enumerate([*each, *grouped]):
        step = {**EACH, **GROUPED, **(more or {})}[name]
        collection = collection | f"{number} {name}" >> Named(step)
        collection = collection | f"{number} typed" >> beam.Map(_same).with_output_types(
            tuple[str, int]
        )
    _ = collection | beam.Map(count)


def _same(element):
    return element


def created(elements):
    return lambda p: (
        p
        | beam.Create(elements)
        | beam.MapTuple(lambda k, v, time: window.TimestampedValue((k, v), time)).with_output_types(
            tuple[str, int]
        )
    )


def streamed(script):
    return lambda p: p | script | beam.Map(_same).with_output_types(tuple[str, int])


def results(reports) -> Counter:
    counts: Counter = Counter()
    for report in reports:
        for serialized in report.metrics:
            info = metrics_pb2.MonitoringInfo.FromString(serialized)
            if info.urn == monitoring_infos.USER_COUNTER_URN and info.labels["NAMESPACE"] == "out":
                counts[info.labels["NAME"]] += monitoring_infos.extract_counter_value(info)
    return counts


ELEMENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 60)), max_size=20
)


@st.composite
def streams(draw):
    """Elements in any order, and a watermark that never passes one that is still to come."""
    elements = draw(ELEMENTS)
    stream, rest, mark = test_stream.TestStream(), list(elements), -1
    while rest:
        size = draw(st.integers(1, len(rest)))
        now, rest = rest[:size], rest[size:]
        stream = stream.add_elements(
            [window.TimestampedValue((key, value), time) for key, value, time in now]
        )
        limit = min((time for _, _, time in rest), default=60)
        stepped = draw(st.none() | st.integers(0, limit))
        if stepped is not None and stepped > mark:
            mark = stepped
            stream = stream.advance_watermark_to(mark)
    return elements, stream.advance_watermark_to_infinity()
