"""A bounded source without IO: numbers, made where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam

from benchmarks.jobs.work import SHARDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def spans(n: int) -> list[range]:
    """`SHARDS` ranges that cover [0, n), each as long as the others or one longer."""
    return [range(n * s // SHARDS, n * (s + 1) // SHARDS) for s in range(SHARDS)]


class Generate(beam.PTransform):
    """`make(i)` for i in [0, n). Only the spans cross the reshuffle that spreads the work.

    Elements have a declared type, as a user who minds speed would give them: coders follow from it.
    """

    def __init__(self, n: int, make: Callable[[int], Any], element_type: Any) -> None:
        super().__init__()
        self._n = n
        self._make = make
        self._element_type = element_type

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        n, make = self._n, self._make

        def elements(span: tuple[int, int]) -> Iterator[Any]:
            for i in range(*span):
                yield make(i)

        return (
            begin
            | "Impulse" >> beam.Impulse()
            | "Spans" >> beam.FlatMap(lambda _: [(s.start, s.stop) for s in spans(n)])
            | "Spread" >> beam.Reshuffle()
            | "Generate" >> beam.FlatMap(elements).with_output_types(self._element_type)
        )
