"""What does not change about a grouping while it runs: its windowing, taken apart."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import Sessions, TimestampCombiner

from sparkdrain.panes.times import WindowTimes
from sparkdrain.panes.triggers import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sparkdrain.panes.grouping import GroupingTerms

_WINDOWS_REMEMBERED = 4096


class OutputTime:
    """Combines the timestamps of elements to that of their pane, by Beam's ``TimestampCombiner``.

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


class Rules:
    """The windowing of a grouping, taken apart.

    Attributes:
        window: a window, by its encoding.
        times: when it is over, by its encoding.
        sessions: whether windows are those of Beam's ``Sessions``.
        merge: Beam's ``WindowFn.merge``, or what stands for it.
        numbers: how many the trigger has.
        lateness: microseconds.
        discards: whether a pane has only what came since the one before.

    Raises:
        Unsupported: the trigger is not known.
    """

    def __init__(self, terms: GroupingTerms) -> None:
        windowing, coder = terms.windowing, terms.coding.window.get_impl()
        lateness: int = windowing.allowed_lateness.micros
        window = lru_cache(_WINDOWS_REMEMBERED)(coder.decode)
        self.encode_window: Callable[[Any], bytes] = coder.encode
        self.window: Callable[[bytes], Any] = window
        self.times: Callable[[bytes], WindowTimes] = lru_cache(_WINDOWS_REMEMBERED)(
            lambda encoded: WindowTimes(window(encoded), lateness)
        )
        self.merges: bool = windowing.windowfn.is_merging()
        self.sessions = type(windowing.windowfn) is Sessions
        self.merge: Callable[[Any], None] = terms.merge or windowing.windowfn.merge
        self.trigger, self.numbers = compiled(windowing.triggerfn)
        self.lateness = lateness
        self.output_time = OutputTime(windowing)
        self.discards: bool = windowing.accumulation_mode == AccumulationMode.DISCARDING
        self.closes_always = terms.closes_always
        self.on_time_always = terms.on_time_always
