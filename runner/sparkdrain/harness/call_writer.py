"""Writes the functions that call the methods of a stateful DoFn, with just what is asked for.

Beam compares each parameter with each kind of marker for every element. What is asked for does not
change, so here it is said once, as source text.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam import DoFn
from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.transforms.window import WindowedValue

from sparkdrain.harness.beam import common
from sparkdrain.harness.timers import ProcessingTimer, timer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.harness.dofn import DoFnHandle
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


@dataclass(frozen=True, slots=True)
class Side:
    """A side input.

    Attributes:
        number: among those of the DoFn.
        views: what user code sees of it, by window; it may change from round to round.
    """

    number: int
    views: Any


@dataclass(frozen=True, slots=True)
class Given:
    """A value that was given together with the DoFn."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        keyword: under which it is passed; empty: by position.
        what: a marker of Beam's, a ``Side``, or a ``Given``.
    """

    keyword: str
    what: Any

    def written(self, value: str) -> str:
        """As source text; ``value`` is what is passed."""
        return f"{self.keyword}={value}" if self.keyword else value


def arguments_of(process: Any, handle: DoFnHandle) -> list[Argument] | None:
    """What Beam passes to ``process``, in its order; None if that is more than ``ELEMENT`` has.

    Args:
        process: Beam's view of the method.
    """
    markers, passed, keywords = common._get_arg_placeholders(  # noqa: SLF001 - what Beam does
        process, list(handle.args), dict(handle.kwargs)
    )
    places = dict(markers)
    sides = (Side(number, views) for number, views in enumerate(handle.side_inputs))
    found = []
    for number, value in enumerate(passed):
        if number in places:
            marker = places[number]
            if not isinstance(marker, (DoFn.StateParam, DoFn.TimerParam)) and marker not in ELEMENT:
                return None
            found.append(Argument("", marker))
        else:
            found.append(Argument("", _given(number, value, sides)))
    for number, (keyword, value) in enumerate(sorted(keywords.items()), len(passed)):
        found.append(Argument(keyword, _given(number, value, sides)))
    return found


def _given(number: int, value: Any, sides: Iterator[Side]) -> Side | Given:
    return next(sides) if isinstance(value, ArgumentPlaceholder) else Given(number, value)


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
        arguments = self._passed(passed)
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
            *([f"        {line}" for line in _TIMESTAMP] if "timestamp" in arguments else []),
            f"        results = method({arguments})",
            "        if results is not None:",
            "            handle_results(element, results)",
        ]
        return self._made(lines, method.method_value)

    def start(self, method: Callable[..., Any], passed: list[Argument]) -> Any:
        """``start(key, element)``: what ``process`` returns for an element with one window."""
        arguments = self._passed(passed)
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
            f"{name}={self._argument(default, TIMER, 'pane')}"
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

    def _passed(self, passed: list[Argument]) -> str:
        """What is passed to ``process``."""
        written = []
        for each in passed:
            match each.what:
                case Given(number, value):
                    name = f"given{number}"
                    self._names[name] = value
                case Side(number, views):
                    # Nothing of it is kept beyond a feed: it may change between rounds.
                    name = f"side{number}"
                    self._names[f"views{number}"] = views
                    self._on_enter.append(f"{name} = views{number}[window]")
                case what:
                    name = self._argument(what, ELEMENT, "element.pane_info")
            written.append(each.written(name))
        return ", ".join(written)

    def _argument(self, default: Any, known: dict[Any, str], pane: str) -> str:
        """What is passed for a marker."""
        name = f"kept{len(self._names)}"
        if isinstance(default, DoFn.StateParam):
            self._names[name] = self._place.cells[default.state_spec.name]
            return name
        if isinstance(default, DoFn.TimerParam):
            timer = self._names[name] = timer_of(self._place, default.timer_spec)
            if isinstance(timer, ProcessingTimer):
                return f"{name}.set_at(timestamp, {pane})"
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
