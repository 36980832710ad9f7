"""User state and timers of a bounded stage, in memory and beyond it."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, StrUtf8Coder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from tests.support.in_memory import DEFAULTS, run_in_memory

if TYPE_CHECKING:
    from pathlib import Path

SMALL = dataclasses.replace(DEFAULTS, memory_bytes=200_000)


class Save(beam.DoFn):
    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def process(self, element):
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(element) + "\n")


def saved(path: Path) -> list:
    return sorted(json.loads(line) for line in path.read_text().splitlines())


class EveryKind(beam.DoFn):
    """Touches every kind of state for each element and tells what it has when input has ended."""

    VALUE = ReadModifyWriteStateSpec("value", VarIntCoder())
    BAG = BagStateSpec("bag", BytesCoder())
    SUM = CombiningValueStateSpec("sum", VarIntCoder(), sum)
    SET = SetStateSpec("set", StrUtf8Coder())
    LIST = OrderedListStateSpec("list", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        value=beam.DoFn.StateParam(VALUE),
        bag=beam.DoFn.StateParam(BAG),
        total=beam.DoFn.StateParam(SUM),
        distinct=beam.DoFn.StateParam(SET),
        ordered=beam.DoFn.StateParam(LIST),
        end=beam.DoFn.TimerParam(END),
    ):
        number = element[1]
        value.write((value.read() or 0) + 1)
        bag.add(b"%d" % number + b"x" * 100)
        total.add(number)
        distinct.add(str(number % 7))
        ordered.add((Timestamp(-number), number))
        end.set(Timestamp(10))

    @on_timer(END)
    def at_end(
        self,
        key=beam.DoFn.KeyParam,
        value=beam.DoFn.StateParam(VALUE),
        bag=beam.DoFn.StateParam(BAG),
        total=beam.DoFn.StateParam(SUM),
        distinct=beam.DoFn.StateParam(SET),
        ordered=beam.DoFn.StateParam(LIST),
    ):
        in_order = [item for _, item in ordered.read()]
        middle = [i for _, i in ordered.read_range(Timestamp(-20), Timestamp(-10))]
        ordered.clear_range(Timestamp(-20), Timestamp(-10))
        yield (
            key,
            value.read(),
            sorted(int(item.rstrip(b"x")) for item in bag.read()),
            total.read(),
            sorted(distinct.read()),
            in_order == sorted(in_order, reverse=True) and len(in_order),
            sorted(middle),
            len(list(ordered.read())),
        )


@pytest.mark.parametrize("options", [DEFAULTS, SMALL], ids=["in memory", "beyond memory"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_every_kind_of_state_keeps_what_was_put_there(tmp_path, options, compiled) -> None:
    n, keys = 6000, 3
    pipeline = beam.Pipeline()
    out = tmp_path / "out"
    _ = (
        pipeline
        | beam.Create(range(n))
        | beam.Map(lambda i: (f"k{i % keys}", i)).with_output_types(tuple[str, int])
        | beam.ParDo(EveryKind())
        | beam.ParDo(Save(out))
    )
    run_in_memory(pipeline, options=dataclasses.replace(options, compiled=compiled))
    expected = []
    for k in range(keys):
        mine = [i for i in range(n) if i % keys == k]
        middle = [i for i in mine if 10 < i <= 20]
        expected.append(
            [
                f"k{k}",
                len(mine),
                mine,
                sum(mine),
                sorted({str(i % 7) for i in mine}),
                len(mine),
                middle,
                len(mine) - len(middle),
            ]
        )
    assert saved(out) == expected


class ManyTimers(beam.DoFn):
    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def __init__(self, timers: int) -> None:
        self._timers = timers

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        for i in range(self._timers):
            timer.set(Timestamp((i * 7919) % self._timers), dynamic_timer_tag=str(i))
        timer.clear(dynamic_timer_tag="5")

    @on_timer(TIMER)
    def fire(self, tag=beam.DoFn.DynamicTimerTagParam, at=beam.DoFn.TimestampParam):
        yield int(tag), int(at)


@pytest.mark.parametrize("timers", [50, 12_000], ids=["in memory", "beyond memory"])
def test_timers_fire_in_time_order_whether_few_or_many(tmp_path, timers) -> None:
    pipeline = beam.Pipeline()
    out = tmp_path / "out"
    _ = pipeline | beam.Create([("k", 1)]) | beam.ParDo(ManyTimers(timers)) | beam.ParDo(Save(out))
    run_in_memory(pipeline, options=SMALL)
    fired = [json.loads(line) for line in out.read_text().splitlines()]
    times = [at for _, at in fired]
    assert times == sorted(times)
    assert sorted(fired) == [[i, i * 7919 % timers] for i in range(timers) if i != 5]


class ManyWindows(beam.DoFn):
    BAG = BagStateSpec("bag", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        bag=beam.DoFn.StateParam(BAG),
        end=beam.DoFn.TimerParam(END),
    ):
        bag.add(element[1])
        end.set(window.end)

    @on_timer(END)
    def at_end(self, bag=beam.DoFn.StateParam(BAG), window=beam.DoFn.WindowParam):
        yield int(window.start), sorted(bag.read())


def test_a_key_with_thousands_of_windows_keeps_them_apart_beyond_memory(tmp_path) -> None:
    pipeline = beam.Pipeline()
    out = tmp_path / "out"
    n = 4000
    _ = (
        pipeline
        | beam.Create(range(n))
        | beam.Map(lambda i: beam.window.TimestampedValue(("k", i), i))
        | beam.WindowInto(beam.window.FixedWindows(2))
        | beam.ParDo(ManyWindows())
        | beam.ParDo(Save(out))
    )
    run_in_memory(pipeline, options=SMALL)
    assert saved(out) == [[i, [i, i + 1]] for i in range(0, n, 2)]
