"""Writes the functions that call the methods of a stateful DoFn, with just what is asked for.

Beam compares each parameter with each kind of marker for every element. What is asked for does not
change, so here it is said once, as source text.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from apache_beam import DoFn
from apache_beam.transforms.window import WindowedValue

from sparkdrain.harness.arguments import Given, Side
from sparkdrain.harness.timers import ProcessingTimer, timer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.arguments import Argument
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.small_place import SmallPlace

# What is passed for a marker, as source text.
ELEMENT = {
    DoFn.ElementParam: "(key, element.value)",
    DoFn.KeyParam: "key",
    DoFn.WindowParam: "window",
    DoFn.TimestampParam: "timestamp",
    DoFn.PaneInfoParam: "element.pane_info",
}
TIMER = {
    DoFn.KeyParam: "key",
    DoFn.WindowParam: "window",
    DoFn.WindowedValueParam: "window",
    DoFn.TimestampParam: "timestamp",
    DoFn.DynamicTimerTagParam: "tag.decode()",
}
# Timers are not given these, and keep the marker.
NOT_FOR_TIMERS = (DoFn.ElementParam, DoFn.PaneInfoParam, DoFn.SideInputParam)
# Many elements share their time with the one before, often that of another key.
_TIMESTAMP = (
    "if element.timestamp_micros != micros:",
    "    micros, timestamp = element.timestamp_micros, element.timestamp",
)
_RETURN = ("    return results",)
# Many timers share their time and window with the one before.
_HAND_ON = (
    "    global fired, fired_at, fired_in",
    "    if results is not None:",
    "        if timestamp is not fired_at or window is not fired_in:",
    "            fired_at, fired_in = timestamp, window",
    "            fired = WindowedValue(None, timestamp, (window,))",
    "        handle_results(fired, results)",
)
_NUMBERS = itertools.count()


class CallWriter:
    """Writes the function that calls one method.

    Args:
        place: where state of the key is that has its turn.
        handle_results: takes what the method returns; None: the caller does.
    """

    def __init__(
        self, place: LargePlace | SmallPlace, handle_results: Callable[..., None] | None = None
    ) -> None:
        self._place = place
        self._names: dict[str, Any] = {
            "place": place,
            "enter": place.enter,
            "micros": None,
            "timestamp": None,
            "fired": None,
            "fired_at": None,
            "fired_in": None,
            "WindowedValue": WindowedValue,
            "handle_results": handle_results,
        }
        self._on_enter: list[str] = []

    def feed(self, method: Any, passed: list[Argument]) -> Any:
        """``feed(key, elements)``, which calls ``process`` with what is passed to it."""
        at = "timestamp", "element.pane_info"
        arguments = [each.written(self._passed(each.what, *at)) for each in passed]
        asked = " ".join(arguments)
        lines = [
            "def call(key, elements):",
            "    global micros, timestamp",
            "    last = None",
            "    for element in elements:",
            "        windows = element.windows",
            "        if len(windows) != 1:",
            "            for window in windows:",
            "                alone = WindowedValue(element.value, element.timestamp, (window,))",
            "                call(key, (alone,))",
            "            last = None",
            "            continue",
            "        (window,) = windows",
            "        if window is not last:",
            "            enter(window, key)",
            *(f"            {line}" for line in self._on_enter),
            "            last = window",
            *([f"        {line}" for line in _TIMESTAMP] if "timestamp" in asked else []),
            f"        results = method({', '.join(arguments)})",
            "        if results is not None:",
            "            handle_results(element, results)",
        ]
        return self._made(lines, method.method_value)

    def start(self, method: Callable[..., Any], passed: list[Argument]) -> Any:
        """``start(key, element)``: what ``process`` returns for an element with one window."""
        at = "timestamp", "element.pane_info"
        arguments = ", ".join(each.written(self._passed(each.what, *at)) for each in passed)
        lines = [
            "def call(key, element):",
            "    global micros, timestamp",
            "    (window,) = element.windows",
            "    if window is not place.window:",
            "        enter(window, key)",
            *(f"    {line}" for line in self._on_enter),
            *([f"    {line}" for line in _TIMESTAMP] if "timestamp" in arguments else []),
            f"    return method({arguments})",
        ]
        return self._made(lines, method)

    def fire(self, method: Any) -> Any:
        """``fire(key, window, timestamp, pane, tag)``, which calls the method of a timer."""
        defaults = method.defaults
        names = method.args[len(method.args) - len(defaults) :]
        arguments = [
            f"{name}={self._argument(default, TIMER, 'timestamp', 'pane')}"
            for name, default in zip(names, defaults, strict=True)
            if default not in NOT_FOR_TIMERS
        ]
        asks = any(isinstance(default, (DoFn.StateParam, DoFn.TimerParam)) for default in defaults)
        # A small key's record is what has the timer, so its place was entered before.
        enters = self._place.is_large and asks
        lines = [
            "def call(key, window, timestamp, pane, tag):",
            *(["    enter(window, key)"] if enters else []),
            f"    results = method({', '.join(arguments)})",
            *(_RETURN if self._names["handle_results"] is None else _HAND_ON),
        ]
        return self._made(lines, method.method_value)

    def _passed(self, what: Any, timestamp: str, pane: str) -> str:
        """What is passed to ``process``."""
        match what:
            case Given(number, value):
                self._names[f"given{number}"] = value
                return f"given{number}"
            case Side(number, views):
                # Nothing of it is kept beyond a feed: it may change between rounds.
                self._names[f"views{number}"] = views
                self._on_enter.append(f"side{number} = views{number}[window]")
                return f"side{number}"
        return self._argument(what, ELEMENT, timestamp, pane)

    def _argument(self, default: Any, known: dict[Any, str], timestamp: str, pane: str) -> str:
        """What is passed for a marker."""
        name = f"kept{len(self._names)}"
        if isinstance(default, DoFn.StateParam):
            self._names[name] = self._place.cells[default.state_spec.name]
            return name
        if isinstance(default, DoFn.TimerParam):
            timer = self._names[name] = timer_of(self._place, default.timer_spec)
            if isinstance(timer, ProcessingTimer):
                return f"{name}.set_at({timestamp}, {pane})"
            return f"{name}.set_in({pane})"
        return known[default]

    def _made(self, lines: list[str], method: Callable[..., Any]) -> Any:
        self._names["method"] = method
        exec(_compiled("\n".join(lines)), self._names)  # noqa: S102 - our own
        return self._names["call"]


@functools.lru_cache(maxsize=256)
def _compiled(source: str) -> Any:
    """The compiled source. Keys in flight have a place each, and all places share the code."""
    return compile(source, f"<compiled calls of a stateful DoFn {next(_NUMBERS)}>", "exec")
