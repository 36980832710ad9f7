"""The cheap check at the end of a job: sums of numbers, written where the client reads them."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

RESULT = "tally.json"
AGE_SECONDS = 10**10  # one window holds every time of a stream; it ends with the stream


class Tally(beam.PTransform):
    """Counts elements and sums what `measure` says of each; ends in one file in `out`.

    The input must be in the global window, unless it is a stream. An element costs one call of
    `measure` and one addition per column; nothing is emitted per element, so that the check
    weighs no more than one more map. `measure` returns as many numbers as there are columns, and
    for one column the bare number.
    """

    def __init__(
        self, measure: Callable[[Any], Any], columns: int, out: Path, *, stream: bool = False
    ) -> None:
        super().__init__()
        self._stream = stream
        self._measure = measure
        self._columns = columns
        self._out = str(out)

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        fold = _FoldOne if self._columns == 1 else _FoldMany
        window = IntervalWindow(0, AGE_SECONDS) if self._stream else GlobalWindow()
        if self._stream:
            # An unbounded input is grouped in windows that end.
            elements |= "OneWindow" >> beam.WindowInto(FixedWindows(AGE_SECONDS))
        return (
            elements
            | "Fold" >> beam.ParDo(fold(self._measure, self._columns, window))
            | "Add" >> beam.CombineGlobally(add_columns).without_defaults()
            | "Save" >> beam.ParDo(_Save(self._out))
        )


def add_columns(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Sum of each column; () of no rows. Associative, so any combiner may call it again."""
    return tuple(map(sum, zip(*rows, strict=True)))


def read_tally(out: Path) -> list[int]:
    """What a finished pipeline wrote; FileNotFoundError where it wrote nothing."""
    return list(json.loads((out / RESULT).read_text(encoding="utf-8")))


class _FoldOne(beam.DoFn):
    def __init__(self, measure: Callable[[Any], int], columns: int, window: Any) -> None:
        self._measure = measure
        self._window = window

    def start_bundle(self) -> None:
        self._count = 0
        self._sum = 0

    def process(self, element: Any) -> None:
        self._count += 1
        self._sum += self._measure(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield _at_end((self._count, self._sum), self._window)


class _FoldMany(beam.DoFn):
    def __init__(self, measure: Callable[[Any], Sequence[int]], columns: int, window: Any) -> None:
        self._measure = measure
        self._window = window
        self._columns = columns

    def start_bundle(self) -> None:
        self._count = 0
        self._sums = [0] * self._columns

    def process(self, element: Any) -> None:
        self._count += 1
        sums = self._sums
        for column, value in enumerate(self._measure(element)):
            sums[column] += value

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield _at_end((self._count, *self._sums), self._window)


class _Save(beam.DoFn):
    def __init__(self, out: str) -> None:
        self._out = out

    def process(self, sums: Sequence[int]) -> None:
        path = os.path.join(self._out, RESULT)
        part = f"{path}.{uuid.uuid4().hex}"
        with open(part, "w", encoding="utf-8") as f:
            json.dump(sums, f)
        os.rename(part, path)


def _at_end(row: tuple[int, ...], window: Any) -> WindowedValue:
    return WindowedValue(row, window.max_timestamp(), [window])
