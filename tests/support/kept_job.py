"""A job whose checkpoint is kept in the repository: later releases have to go on from there.

It has every kind of state, timers of both time domains, with and without dynamic tags, windows
that end, keys that are too large for a record, several DoFns behind one edge, and elements that
wait to be sorted by time. ``python -m tests.support.kept_job`` makes the checkpoint anew. Do not
run it to make a failing test pass: jobs of users have checkpoints like the old one.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import apache_beam as beam
from apache_beam.coders import BytesCoder, StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import environments, userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.graph.translate import translate
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import InMemoryRounds
from tests.support.random_pipelines import count, results
from tests.support.scripts import Mark, Pass, pairs_in_rounds

if TYPE_CHECKING:
    from collections import Counter

    from sparkdrain.graph.plan import Plan

KEPT: Final = Path(__file__).parents[1] / "golden" / "checkpoints" / "format-1"
SLOTS: Final = 2
_ROUNDS: Final = 6
_INTERVAL: Final = 5_000_000
_LARGE: Final = 20_000

STEPS: Final = (
    [("a", 3, 1), ("b", 10, 2), ("a", 1, 3), ("large", 4, 3)],
    [("a", 2, 4), ("c", 6, 5), ("large", 5, 6)],
    [("b", 11, 7), ("d", 8, 8), ("a", 9, 12)],
    Pass(10),
    # What follows is for those who go on: the checkpoint is made once the clock has moved.
    [("c", 7, 9), ("a", 4, 10), ("large", 2, 11)],
    Mark(9),
    Pass(60),
    [("b", 12, 13), ("e", 5, 14), ("d", 1, 15)],
    Mark(40),
    [("a", 5, 41), ("large", 1, 42)],
)


class Small(beam.DoFn):
    """All kinds of state that records have, and an event timer."""

    VALUE = userstate.ReadModifyWriteStateSpec("value", StrUtf8Coder())
    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)
    LATER = userstate.TimerSpec("later", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> Any:
        key, number = element
        value.write(f"{value.read() or ''}{number}.")
        bag.add(number)
        distinct.add(number % 3)
        total.add(number)
        later.set(time + 20)
        yield key, value.read(), list(bag.read()), sorted(distinct.read()), total.read()

    @userstate.on_timer(LATER)
    def on_later(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        total: Any = beam.DoFn.StateParam(SUM),
    ) -> Any:
        yield key, "later", int(at), value.read(), total.read()
        value.clear()


class Large(beam.DoFn):
    """Bags, sets and ordered lists; those of one key are more than a record can hold."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        ordered: Any = beam.DoFn.StateParam(LIST),
    ) -> Any:
        key, number = element
        is_large = key == "large"
        bag.add(b"%d" % number * (_LARGE if is_large else 1))
        for each in range(number, number + (100 if is_large else 2)):
            distinct.add(each)
        for each in range(2):
            ordered.add((Timestamp(-number * each), number))
        yield (
            key,
            sum(map(len, bag.read())),
            len(list(distinct.read())),
            [n for _, n in ordered.read()],
            [n for _, n in ordered.read_range(Timestamp(-5), Timestamp(0))],
        )
        ordered.clear_range(Timestamp(-4), Timestamp(-2))


class Outgrown(beam.DoFn):
    """A bag and a set without lists: keys are records until these are too large."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    LATER = userstate.TimerSpec("later", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> Any:
        key, number = element
        bag.add(b"%d" % number * (_LARGE if key == "large" else 1))
        distinct.add(number)
        later.set(Timestamp(25))
        yield key, sum(map(len, bag.read())), sorted(distinct.read())

    @userstate.on_timer(LATER)
    def on_later(
        self, key: Any = beam.DoFn.KeyParam, distinct: Any = beam.DoFn.StateParam(SET)
    ) -> Any:
        yield key, "outgrown", sorted(distinct.read())


class Clocks(beam.DoFn):
    """Timers of both time domains, with dynamic tags and without, and a value."""

    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)
    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        total: Any = beam.DoFn.StateParam(COUNT),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
        event: Any = beam.DoFn.TimerParam(EVENT),
    ) -> None:
        _, number = element
        total.add(1)
        clock.set(Timestamp(30 + number))
        clock.set(Timestamp(5 + number), dynamic_timer_tag=f"tag {number}")
        event.set(time + 10)
        event.set(time + 5, dynamic_timer_tag=f"tag {number % 2}")
        event.set(time + 6, dynamic_timer_tag="cleared")
        event.clear(dynamic_timer_tag="cleared")

    @userstate.on_timer(CLOCK)
    def on_clock(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        total: Any = beam.DoFn.StateParam(COUNT),
    ) -> Any:
        yield key, "clock", int(at), tag, total.read()

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        total: Any = beam.DoFn.StateParam(COUNT),
    ) -> Any:
        yield key, "event", int(at), tag, total.read()


class InOrder(beam.DoFn):
    """Tells each element and the one before it; elements wait until they are sorted."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Any:
        yield element[0], "after", last.read(), int(time)
        last.write(int(time))


class Tally(beam.DoFn):
    """Counts; several of them stand behind one edge."""

    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)
    LATER = userstate.TimerSpec("later", TimeDomain.WATERMARK)

    def __init__(self, name: str) -> None:
        self._name = name

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(COUNT),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> Any:
        total.add(1)
        later.set(Timestamp(30))
        yield element[0], self._name, total.read()

    @userstate.on_timer(LATER)
    def on_later(
        self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(COUNT)
    ) -> Any:
        yield key, self._name, "later", total.read()


_SORTED: Final = "InOrder"


def plan() -> Plan:
    """The job's plan."""
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    pairs = pairs_in_rounds(*STEPS)(pipeline)
    windows = pairs | "Windows" >> beam.WindowInto(window.FixedWindows(10), allowed_lateness=5)
    for name, collection, dofn in (
        ("Small", pairs, Small()),
        ("SmallInWindows", windows, Small()),
        ("Large", windows, Large()),
        ("Outgrown", pairs, Outgrown()),
        ("Clocks", pairs, Clocks()),
        ("ClocksInWindows", windows, Clocks()),
        (_SORTED, windows, InOrder()),
        ("One", pairs, Tally("one")),
        ("Two", pairs, Tally("two")),
    ):
        made = collection | name >> beam.ParDo(dofn)
        _ = made | f"Tell{name}" >> beam.Map(_named, name) | f"Count{name}" >> beam.Map(count)
    proto = pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment())
    for transform in proto.components.transforms.values():
        if transform.unique_name == _SORTED:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            payload.requires_time_sorted_input = True
            transform.spec.payload = payload.SerializeToString()
    return translate(proto, streaming=True)


def _named(element: Any, name: str) -> Any:
    return name, *element


def unharmed() -> Counter[str]:
    """What the job makes that never ends before its time."""
    rounds = InMemoryRounds(plan(), SLOTS)
    try:
        rounds.run_to_end()
        return results(rounds.schedule.reports())
    finally:
        rounds.close()


def resumed(folder: Path) -> Counter[str]:
    """What the job has made in the end whose checkpoint is in ``folder``, which is changed."""
    return _live(folder, lambda header: None)


class _Crash(Exception):
    pass


def begin(folder: Path) -> None:
    """Run the job until it has made a checkpoint of everything, and end it there."""

    def crash(header: Any) -> None:
        if header.number > _ROUNDS:
            raise _Crash

    with contextlib.suppress(_Crash):
        _live(folder, crash)


def _live(folder: Path, fail: Any) -> Counter[str]:
    durable = DurableJob.at(str(folder), "job", "run", {}, SLOTS, 1)
    with patch.object(service, "Uploader", AtOnce):
        rounds = InMemoryRounds(plan(), SLOTS, durable=durable, fail=fail, interval=_INTERVAL)
        try:
            rounds.run_to_end()
            return results(rounds.schedule.reports())
        finally:
            rounds.close()
            durable.settle()


if __name__ == "__main__":
    shutil.rmtree(KEPT, ignore_errors=True)
    begin(KEPT)
