"""Sources without end, for jobs that end because they are drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from tests.support.restrictions import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unbounded(OffsetRestrictionTracker):
    def is_bounded(self) -> bool:
        return False


class Endless(Ranges):
    """The numbers from the first on; nobody knows where they end."""

    def create_tracker(self, restriction: OffsetRange) -> Unbounded:
        return Unbounded(restriction)


class Numbers(beam.DoFn):
    """(source, 0), (source, 1), ...: some at a time, one a second of event time."""

    def __init__(self, at_once: int = 3, pause: float = 1) -> None:
        self._at_once = at_once
        self._pause = pause

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(Endless())
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        for _ in range(self._at_once):
            if not tracker.try_claim(number):
                return
            yield TimestampedValue((element[2], number), Timestamp(number))
            number += 1
        tracker.defer_remainder(Duration(self._pause))


class Silence(beam.DoFn):
    """A source that is there, and gives nothing: no element, and no progress of time."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(Endless())
    ) -> Iterator[TimestampedValue]:
        del element
        tracker.defer_remainder(Duration(1))
        return iter(())


def numbers(*sources: str) -> Any:
    """A function that makes a PCollection of the numbers of these sources."""
    elements = [(0, 10**9, source) for source in sources]

    def build(pipeline: Any) -> Any:
        made = pipeline | beam.Create(elements, reshuffle=False) | beam.ParDo(Numbers())
        return made | "typed" >> beam.Map(_same).with_output_types(tuple[str, int])

    return build


def silence(pipeline: Any) -> Any:
    """A PCollection that never has anything."""
    made = pipeline | "nobody" >> beam.Create([(0, 10**9, "")], reshuffle=False)
    quiet = made | beam.ParDo(Silence())
    return quiet | "of pairs" >> beam.Map(_same).with_output_types(tuple[str, int])


def _same(element: Any) -> Any:
    return element
