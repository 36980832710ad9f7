"""Keyed state in a stream without timers: the tenth element of a session ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from benchmarks.jobs import sessions, stream_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.jobs.work import Work

_COUNT_BITS = 4
_COUNT = (1 << _COUNT_BITS) - 1


class Session(beam.DoFn):
    """One value has the sum and, in its last bits, the count."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def process(
        self, element: tuple[str, int], total: Any = beam.DoFn.StateParam(SUM)
    ) -> Iterator[tuple[str, int]] | None:
        key, number = element
        held: int = (total.read() or 0) + (number << _COUNT_BITS) + 1
        if held & _COUNT < sessions.LENGTH:
            total.write(held)
            return None
        total.clear()
        return iter([(key, held >> _COUNT_BITS)])


def build(pipeline: beam.Pipeline, work: Work) -> None:
    """Applies the job to `pipeline`."""
    stream_state.build(pipeline, work, Session)


result = stream_state.result
expected = sessions.expected
