"""Sessions whose sum is kept, in bytewax."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulLogic

from benchmarks.dataflows.source import Stream
from benchmarks.dataflows.tally import Tally
from benchmarks.jobs import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from benchmarks.jobs.work import Work


class Session(StatefulLogic[tuple["datetime", int], int, tuple[int, int]]):
    """Adds up. Timers of bytewax are of the wall clock: the tenth element ends a session here."""

    def __init__(self, resumed: tuple[int, int] | None) -> None:
        self._sum, self._count = resumed or (0, 0)

    def on_item(self, value: tuple[datetime, int]) -> tuple[Iterable[int], bool]:
        self._sum += value[1]
        self._count += 1
        if self._count < sessions.LENGTH:
            return (), StatefulLogic.RETAIN
        return (self._sum,), StatefulLogic.DISCARD

    def snapshot(self) -> tuple[int, int]:
        return self._sum, self._count


def build(work: Work, part: slice, tell: Callable[[list[int]], None]) -> Dataflow:
    """The dataflow over the shards of `part`."""
    flow = Dataflow("state")
    make = partial(sessions.make_sessions, work.keys)
    elements = op.input("stream", flow, Stream(sessions.session_shards(work)[part], make))
    sums = op.stateful("session", elements, Session)
    op.output("tally", sums, Tally(sessions.measure, tell))
    return flow
