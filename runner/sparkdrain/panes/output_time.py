"""Which timestamp a pane has, by Beam's ``TimestampCombiner``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import TimestampCombiner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sparkdrain.panes.times import WindowTimes


class OutputTime:
    """Combines the timestamps of elements to that of their pane.

    An element counts if its time is not behind the watermark: what is later cannot be held.
    """

    def __init__(self, windowing: Any) -> None:
        self.at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
        latest = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_LATEST
        self._pick: Callable[..., int] = max if latest or self.at_end else min
        self._transformed: Any = None
        if windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
            self._transformed = windowing.windowfn.get_transformed_output_time

    def of_elements(
        self, window: Any, times: WindowTimes, elements: list[Any], frontier: int
    ) -> int | None:
        """The output time of windowed values in one of their windows; None if all are behind."""
        if self.at_end:
            return times.last if frontier <= times.last else None
        if self._transformed is not None:
            stamps = [self._transformed(window, element.timestamp).micros for element in elements]
        else:
            stamps = [element.timestamp_micros for element in elements]
        return self._pick((stamp for stamp in stamps if stamp >= frontier), default=None)

    def combined(self, parts: Iterable[int | None]) -> int | None:
        """The output time of panes that become one; None if no pane has one."""
        return self._pick((part for part in parts if part is not None), default=None)

    def of_pane(self, times: WindowTimes, hold: int | None) -> int:
        """The timestamp of a pane, by what its elements say."""
        return times.last if self.at_end or hold is None else hold
