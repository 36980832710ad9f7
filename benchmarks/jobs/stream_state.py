"""Keyed state and timers in a stream: sessions whose sum is kept, and sent when they are over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Duration

from benchmarks.jobs import sessions
from benchmarks.jobs.stream import Stream
from benchmarks.jobs.tally import Tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.jobs.work import Work

GAP = Duration(sessions.GAP_SECONDS)


class Session(beam.DoFn):
    """Each element adds to its key's sum and moves the key's timer."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())
    OVER = TimerSpec("over", TimeDomain.WATERMARK)

    def start_bundle(self) -> None:
        # Adding to a Timestamp costs more than a state call; elements of a block share theirs.
        self._over_at: dict[int, Any] = {}

    def process(
        self,
        element: tuple[str, int],
        timestamp: Any = beam.DoFn.TimestampParam,
        total: Any = beam.DoFn.StateParam(SUM),
        over: Any = beam.DoFn.TimerParam(OVER),
    ) -> None:
        total.write((total.read() or 0) + element[1])
        micros = timestamp.micros
        over_at = self._over_at.get(micros)
        if over_at is None:
            over_at = self._over_at[micros] = timestamp + GAP
        over.set(over_at)

    @on_timer(OVER)
    def on_over(
        self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]]:
        yield key, total.read()
        total.clear()


def build(
    pipeline: beam.Pipeline,
    work: Work,
    dofn: type[beam.DoFn] = Session,
    sides: Sequence[beam.pvalue.AsSideInput] = (),
) -> None:
    """Applies the job to `pipeline`; with another DoFn, if one is given, that takes side inputs."""
    make = partial(sessions.make_sessions, work.keys)
    _ = (
        pipeline
        | Stream(sessions.session_shards(work), make, tuple[str, int])
        | "Session" >> beam.ParDo(dofn(), *sides).with_output_types(tuple[str, int])
        | Tally(sessions.measure, 2, work.out, stream=True)
    )


def result(work: Work) -> list[int]:
    """Sessions, the sum of all values, and the sum weighted by session."""
    return read_tally(work.out)


expected = sessions.expected
