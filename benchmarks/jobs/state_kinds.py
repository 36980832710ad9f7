"""Sessions that keep their numbers in other kinds of state, or look at a side input.

The results are those of ``stream_state``: the ten numbers of a session differ, and the side input
adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.pvalue import AsDict
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    SetStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)

from benchmarks.jobs import stream_state
from sparkdrain.map_state import MapStateSpec, MultimapStateSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.jobs.work import Work


class WithSide(stream_state.Session):
    """Each element is looked up in a dict that is a side input."""

    def process(
        self,
        element: tuple[str, int],
        extra: dict[str, int],
        timestamp: Any = beam.DoFn.TimestampParam,
        total: Any = beam.DoFn.StateParam(stream_state.Session.SUM),
        over: Any = beam.DoFn.TimerParam(stream_state.Session.OVER),
    ) -> None:
        key, number = element
        super().process((key, number + extra.get(key, 0)), timestamp, total, over)


class ByBeam(stream_state.Session):
    """Asks for what generated calls do not pass, so Beam calls it."""

    def process(
        self,
        element: tuple[str, int],
        whole: Any = beam.DoFn.WindowedValueParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        total: Any = beam.DoFn.StateParam(stream_state.Session.SUM),
        over: Any = beam.DoFn.TimerParam(stream_state.Session.OVER),
    ) -> None:
        super().process(element, timestamp, total, over)


def kept_in(
    state: StateSpec, keep: Callable[[Any, int], None], kept: Callable[[Any], Iterable[int]]
) -> type[beam.DoFn]:
    """Keeps each element in a state with many items, which are summed up in the end.

    Args:
        state: where.
        keep: adds a number to the state.
        kept: all numbers of the state.
    """
    timer = TimerSpec("over", TimeDomain.WATERMARK)

    class Kept(beam.DoFn):
        def process(
            self,
            element: tuple[str, int],
            timestamp: Any = beam.DoFn.TimestampParam,
            numbers: Any = beam.DoFn.StateParam(state),
            over: Any = beam.DoFn.TimerParam(timer),
        ) -> None:
            keep(numbers, element[1])
            over.set(timestamp + stream_state.GAP)

        @on_timer(timer)
        def on_over(
            self, key: Any = beam.DoFn.KeyParam, numbers: Any = beam.DoFn.StateParam(state)
        ) -> Iterator[tuple[str, int]]:
            yield key, sum(kept(numbers))
            numbers.clear()

    return Kept


def added_to(state: StateSpec) -> type[beam.DoFn]:
    """Adds each element to a bag or set."""
    return kept_in(state, lambda numbers, number: numbers.add(number), lambda n: n.read())


def put_in(state: MapStateSpec) -> type[beam.DoFn]:
    """Puts each element into a map or multimap."""
    return kept_in(state, lambda numbers, number: numbers.put(number, number), lambda n: n.keys())


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
        sides = []
        if self.has_side:
            sides.append(AsDict(pipeline | "Side" >> beam.Create([("no session", 1)])))
        stream_state.build(pipeline, work, self.dofn, sides)

    result = staticmethod(stream_state.result)
    expected = staticmethod(stream_state.expected)


VARIANTS = {
    "by-beam": Variant(ByBeam),
    "with-side": Variant(WithSide, has_side=True),
    "in-bag": Variant(added_to(BagStateSpec("numbers", VarIntCoder()))),
    "in-set": Variant(added_to(SetStateSpec("numbers", VarIntCoder()))),
    "in-map": Variant(put_in(MapStateSpec("numbers", VarIntCoder(), VarIntCoder()))),
    "in-multimap": Variant(put_in(MultimapStateSpec("numbers", VarIntCoder(), VarIntCoder()))),
}
