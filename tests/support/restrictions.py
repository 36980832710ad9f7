"""Splittable DoFns for tests, and a clock that leaps to whatever is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.types import CancelToken

START = 1_000_000_000


class LeapingClock:
    """Stands still, but for leaps over every wait; microseconds."""

    def __init__(self) -> None:
        self._now = START * 1_000_000

    def now(self) -> int:
        return self._now

    def wait_until(self, then: int | None, cancel: CancelToken) -> None:
        del cancel
        assert then is not None, "somebody waits for what never comes"
        self._now = max(self._now, then)


class ImpatientClock(LeapingClock):
    """Leaps over waits of a minute at most; a longer wait is an error."""

    def wait_until(self, then: int | None, cancel: CancelToken) -> None:
        assert then is None or then - self._now <= 60_000_000, "something waits that need not wait"
        super().wait_until(then, cancel)


class UpTo(RestrictionProvider):
    """The numbers from 0 to an element."""

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        del element
        return restriction.size()


class Ranges(UpTo):
    """The numbers from the first to the second of an element."""

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(element[0], element[1])


class _NoSplit(OffsetRestrictionTracker):
    def try_split(self, fraction_of_remainder: float) -> Any:
        raise KeyError(fraction_of_remainder)


class Whole(Ranges):
    """The same, which user code fails to split."""

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return _NoSplit(restriction)


class Count(beam.DoFn):
    """All numbers of an element (first, after the last)."""

    def process(
        self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(Ranges())
    ) -> Iterator[int]:
        del element
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position
            position += 1


class Poll(beam.DoFn):
    """An element (first, after the last, seconds): one number each time, at that second.

    Its watermark is the time of the next number.
    """

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Any,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield TimestampedValue(position, Timestamp(position))
            estimator.set_watermark(Timestamp(position + 1))
            tracker.defer_remainder(Duration(element[2]))
