"""A count per key and fixed window, in bytewax."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow

from benchmarks.dataflows.source import Stream
from benchmarks.dataflows.tally import Tally
from benchmarks.jobs import tumbling
from benchmarks.jobs.turns import START_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.jobs.work import Work


def build(work: Work, part: slice, tell: Callable[[list[int]], None]) -> Dataflow:
    """The dataflow over the shards of `part`."""
    flow = Dataflow("windows")
    stream = Stream(tumbling.tumbling_shards(work)[part], tumbling.make_pairs)
    elements = op.input("stream", flow, stream)
    clock = win.EventClock(_time_of, timedelta(0), _standing_still, _never)
    windower = win.TumblingWindower(
        length=timedelta(seconds=tumbling.WINDOW_SECONDS),
        align_to=datetime.fromtimestamp(START_MS / 1000, timezone.utc),
    )
    counts = win.fold_window("count", elements, clock, windower, _zero, _one_more, _add)
    op.output("tally", counts.down, Tally(_measure, tell))
    return flow


def _time_of(item: tuple[datetime, int]) -> datetime:
    return item[0]


def _standing_still() -> datetime:
    """The wall clock: if it went on, what comes late by it would be dropped."""
    return datetime.fromtimestamp(START_MS / 1000, timezone.utc)


def _never(_: datetime) -> None:
    """No window closes by the wall clock, but by its key's next element or the stream's end."""


def _zero() -> int:
    return 0


def _one_more(count: int, _: object) -> int:
    return count + 1


def _add(one: int, other: int) -> int:
    return one + other


def _measure(row: tuple[str, tuple[int, int]]) -> tuple[int, int]:
    key, (window, count) = row
    end = START_MS + 1000 * tumbling.WINDOW_SECONDS * (window + 1)
    return tumbling.measure((key, end, count))
