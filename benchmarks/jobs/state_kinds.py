"""Sessions that keep their numbers in other kinds of state, or look at a side input.

The results are those of ``stream_state``: the ten numbers of a session differ, and the side input
adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.pvalue import AsDict
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Duration

from benchmarks.jobs import sessions, stream_state
from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work

GAP = Duration(sessions.GAP_SECONDS)


class WithSide(beam.DoFn):
    """Each element is looked up in a dict that is a side input."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
    OVER = TimerSpec("over", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        extra: dict[str, int],
        timestamp: Any = beam.DoFn.TimestampParam,
        total: Any = beam.DoFn.StateParam(SUM),
        over: Any = beam.DoFn.TimerParam(OVER),
    ) -> None:
        key, number = element
        total.write((total.read() or 0) + number + extra.get(key, 0))
        over.set(timestamp + GAP)

    @on_timer(OVER)
    def on_over(
        self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]]:
        yield key, total.read()
        total.clear()


def added_to(state: StateSpec) -> type[beam.DoFn]:
    """Adds each element to a state with many items, which are summed up in the end."""
    timer = TimerSpec("over", TimeDomain.WATERMARK)

    class Added(beam.DoFn):
        def process(
            self,
            element: tuple[str, int],
            timestamp: Any = beam.DoFn.TimestampParam,
            numbers: Any = beam.DoFn.StateParam(state),
            over: Any = beam.DoFn.TimerParam(timer),
        ) -> None:
            numbers.add(element[1])
            over.set(timestamp + GAP)

        @on_timer(timer)
        def on_over(
            self, key: Any = beam.DoFn.KeyParam, numbers: Any = beam.DoFn.StateParam(state)
        ) -> Iterator[tuple[str, int]]:
            yield key, sum(numbers.read())
            numbers.clear()

    return Added


@dataclass(frozen=True)
class Variant:
    """The job with another DoFn; used as the module ``stream_state`` is.

    Attributes:
        dofn: keeps the numbers.
        has_side: whether it takes the side input.
    """

    dofn: type[beam.DoFn]
    has_side: bool = False

    def build(self, pipeline: beam.Pipeline, work: Work) -> None:
        """Applies the job to `pipeline`."""
        make = partial(sessions.make_sessions, work.keys)
        sides = []
        if self.has_side:
            sides.append(AsDict(pipeline | "Side" >> beam.Create([("no session", 1)])))
        _ = (
            pipeline
            | Stream(sessions.session_shards(work), make, tuple[str, int])
            | "Session" >> beam.ParDo(self.dofn(), *sides).with_output_types(tuple[str, int])
            | Tally(sessions.measure, 2, work.out, stream=True)
        )

    result = staticmethod(stream_state.result)
    expected = staticmethod(stream_state.expected)


VARIANTS = {
    "with-side": Variant(WithSide, has_side=True),
    "in-bag": Variant(added_to(BagStateSpec("numbers", VarIntCoder()))),
    "in-set": Variant(added_to(SetStateSpec("numbers", VarIntCoder()))),
}
