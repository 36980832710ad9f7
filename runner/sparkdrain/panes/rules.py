"""What does not change about a grouping while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import Sessions

from sparkdrain.panes.output_time import OutputTime
from sparkdrain.panes.times import WindowTimes
from sparkdrain.panes.triggers import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.panes.grouping import Closing, OnTime
    from sparkdrain.panes.trigger import Trigger

_WINDOWS_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Rules:
    """The windowing of a grouping, taken apart."""

    encode_window: Callable[[Any], bytes]
    window: Callable[[bytes], Any]
    """A window, by its encoding."""
    times: Callable[[bytes], WindowTimes]
    """When it is over, by its encoding."""
    merges: bool
    sessions: bool
    """Whether windows are those of Beam's ``Sessions``."""
    merge: Callable[[Any], None]
    """Beam's ``WindowFn.merge``, or what stands for it."""
    trigger: Trigger
    numbers: int
    """How many the trigger has."""
    lateness: int
    """Microseconds."""
    output_time: OutputTime
    discards: bool
    """Whether a pane has only what came since the one before."""
    closing: Closing
    on_time: OnTime

    @staticmethod
    def of(
        windowing: Any,
        window_coder: Any,
        closing: Closing,
        on_time: OnTime,
        merge: Callable[[Any], None] | None = None,
    ) -> Rules:
        """The rules of a Beam windowing.

        Args:
            windowing: Beam's.
            closing: see ``GroupingTerms``, as all that follows.
            on_time: likewise.
            merge: likewise.

        Raises:
            Unsupported: the trigger is not known.
        """
        coder = window_coder.get_impl()
        trigger, numbers = compiled(windowing.triggerfn)
        lateness = windowing.allowed_lateness.micros
        window = lru_cache(_WINDOWS_REMEMBERED)(coder.decode)
        return Rules(
            coder.encode,
            window,
            lru_cache(_WINDOWS_REMEMBERED)(lambda encoded: WindowTimes(window(encoded), lateness)),
            windowing.windowfn.is_merging(),
            type(windowing.windowfn) is Sessions,
            merge or windowing.windowfn.merge,
            trigger,
            numbers,
            lateness,
            OutputTime(windowing),
            windowing.accumulation_mode == AccumulationMode.DISCARDING,
            closing,
            on_time,
        )
