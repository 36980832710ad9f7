"""What the splittable DoFns of the benchmarks claim: numbers, of elements or of blocks of them."""

from __future__ import annotations

from typing import Any

from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

_ENDLESS = 1 << 40


class Numbers(RestrictionProvider):
    """The numbers from 0 on, for ever if nothing else is said; a drain ends them where they are."""

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, _ENDLESS)

    def create_tracker(self, numbers: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(numbers)

    def restriction_size(self, element: Any, numbers: OffsetRange) -> int:
        return int(numbers.size())

    def truncate(self, element: Any, numbers: OffsetRange) -> OffsetRange | None:
        return None
