"""Restrictions of a partition: a range of offsets, of which whole spans are claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.positions import EARLIEST, Position, start_of, stop_of
from sparkdrain.io.kafka.shared import borrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.io.kafka.shared import Wanted

NO_END: Final = (1 << 63) - 1
"""The end of a partition that is read for as long as there is anything."""
# A part of a bounded partition that is worth being read apart. A reader of two parts in turns has
# to ask the broker anew each time.
_PART: Final = 2_000_000

Element = tuple[str, int, bool]
"""Topic, number of the partition, and whether it was found while the pipeline ran."""


class SpanTracker(OffsetRestrictionTracker):
    """Claims ``(first, last)``: all offsets from ``first`` to ``last``, or none of them."""

    def try_claim(self, span: tuple[int, int]) -> bool:
        """Claim a span.

        A span that is cut by the end of the restriction is refused, but is no attempt: what
        lies within may still be claimed. A span of the end itself tells that all was claimed.
        """
        first, last = span
        if first < self._range.stop <= last:
            return False
        return bool(super().try_claim(last))

    def try_split(self, fraction_of_remainder: float) -> Any:
        """See Beam's; of a restriction without an end there is no fraction."""
        if self._range.stop == NO_END and fraction_of_remainder > 0:
            return None
        return super().try_split(fraction_of_remainder)

    def is_bounded(self) -> bool:
        """Whether it comes to an end."""
        return bool(self._range.stop != NO_END)


class SpansOf(RestrictionProvider):
    """The offsets of a partition that are to be read.

    Args:
        wanted: how to ask for them.
        start: where to begin in partitions that were there when the pipeline started. Those that
            were made later are read from their beginning.
        stop: where to end, if anywhere.
    """

    def __init__(self, wanted: Wanted, start: Position, stop: Position | None) -> None:
        self._wanted = wanted
        self._start = start
        self._stop = stop

    def initial_restriction(self, element: Element) -> OffsetRange:
        """Asks the brokers."""
        topic, number, found_later = element
        partition = Partition(topic, number)
        start = EARLIEST if found_later else self._start
        shared = borrow(self._wanted)
        with shared.asking:
            begin = start_of(shared.catalog, partition, start)
            if self._stop is None:
                return OffsetRange(begin, NO_END)
            return OffsetRange(begin, max(begin, stop_of(shared.catalog, partition, self._stop)))

    def create_tracker(self, restriction: OffsetRange) -> SpanTracker:
        """The tracker of a range that may have no end."""
        return SpanTracker(restriction)

    def split(self, element: Element, restriction: OffsetRange) -> Iterator[OffsetRange]:
        """Parts of a bounded range, so that several workers may read a partition."""
        if restriction.stop == NO_END or restriction.size() <= _PART:
            yield restriction
        else:
            yield from restriction.split(_PART, _PART)

    def restriction_size(self, element: Element, restriction: OffsetRange) -> int:
        """Offsets to read; 1 for a partition without end, whose size is not known."""
        return 1 if restriction.stop == NO_END else restriction.size()

    def truncate(self, element: Element, restriction: OffsetRange) -> OffsetRange | None:
        """What is still to be read of a job that drains.

        Nothing of a partition without end: what was claimed is kept, and the next job that goes on
        from there reads the rest. A bounded range is read to its end.
        """
        return None if restriction.stop == NO_END else restriction
