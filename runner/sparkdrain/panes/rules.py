"""What does not change about a grouping while it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import Sessions

from sparkdrain.panes.output_time import OutputTime
from sparkdrain.panes.times import WindowTimes
from sparkdrain.panes.triggers import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.panes.grouping import GroupingTerms

_WINDOWS_REMEMBERED = 4096


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
        self.closing = terms.closing
        self.on_time = terms.on_time
