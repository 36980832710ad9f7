"""What a window hands out when its trigger fires, or when it expires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from sparkdrain.panes.trigger import Moment
from sparkdrain.shuffle.group_by_key import in_millis

if TYPE_CHECKING:
    from sparkdrain.panes.key_windows import KeyWindows, OpenWindow
    from sparkdrain.panes.pane_values import PaneValues
    from sparkdrain.panes.rules import Rules

Pane = tuple[Any, Any]
"""What goes with a pane, and its values."""


class PaneFiring:
    """Asks triggers, and makes panes of windows, whose state it changes."""

    def __init__(self, rules: Rules, values: PaneValues) -> None:
        self._rules = rules
        self._values = values
        self._last: tuple[tuple[bytes, int, PaneInfo], Any] | None = None

    def at_time(self, windows: KeyWindows, found: OpenWindow, time: int, now: int) -> list[Pane]:
        """The panes at the end of a window, or at its expiry."""
        state, expired = found.state, time >= found.times.expiry
        panes: list[Pane] = []
        if not state.finished:
            if time >= found.times.end and self._rules.trigger.awaits_end(state.numbers):
                self._rules.trigger.end(state.numbers)
                pane = self.ask(windows, found, time, now, by_timer=True)
                if pane is not None:
                    panes.append(pane)
            closed = state.finished or bool(panes)
            if expired and not closed and (state.fresh or self._rules.closes_always):
                panes.append(self._pane(windows, found, time, finished=True, by_timer=True))
        found.gone = expired
        return panes

    def ask(
        self, windows: KeyWindows, found: OpenWindow, watermark: int, now: int, *, by_timer: bool
    ) -> Pane | None:
        """Ask the trigger of a window; a pane if it fires and there is something to say."""
        state, times, trigger = found.state, found.times, self._rules.trigger
        moment = Moment(watermark, now, times.end)
        if state.finished or not trigger.should_fire(state.numbers, moment):
            return None
        finished = trigger.fire(state.numbers, moment)
        is_on_time = by_timer and watermark >= times.end and not state.panes_on_time
        if (
            state.fresh
            or (is_on_time and self._rules.on_time_always)
            or (finished and self._rules.closes_always)
        ):
            return self._pane(windows, found, watermark, finished=finished, by_timer=by_timer)
        if finished:
            self._finish(windows, found)
        return None

    def _pane(
        self,
        windows: KeyWindows,
        found: OpenWindow,
        watermark: int,
        *,
        finished: bool,
        by_timer: bool,
    ) -> Pane:
        state, times = found.state, found.times
        last = finished or (by_timer and watermark >= times.expiry)
        info = self._pane_info(found, watermark, last=last, by_timer=by_timer)
        time = self._rules.output_time.of_pane(times, state.hold)
        context = self._context(found, time, info)
        values = self._values.of(windows.chunks(found))
        state.fresh = False
        if self._rules.discards:
            windows.clear(found)
        # An empty pane on time may still come, which is to stand where the others did.
        if watermark >= times.end or not self._rules.trigger.has_ontime_pane:
            state.hold = None
        if finished:
            self._finish(windows, found)
        return context, values

    def _context(self, found: OpenWindow, time: int, info: PaneInfo) -> Any:
        """What goes with a pane: if it is as before, the same object as before."""
        last = self._last
        if last is None or (found.encoded, time, info) != last[0]:
            context = WindowedValue(None, in_millis(Timestamp(micros=time)), (found.window,), info)
            last = self._last = (found.encoded, time, info), context
        return last[1]

    def _pane_info(
        self, found: OpenWindow, watermark: int, *, last: bool, by_timer: bool
    ) -> PaneInfo:
        state = found.state
        index, on_time = state.panes, state.panes_on_time
        state.panes += 1
        if watermark < found.times.end and not on_time:
            return PaneInfo(index == 0, last, PaneInfoTiming.EARLY, index, -1)
        state.panes_on_time += 1
        timing = PaneInfoTiming.LATE
        if watermark < found.times.end:
            # Late data moved the end of the window.
            timing = PaneInfoTiming.EARLY
        elif by_timer and on_time == 0:
            timing = PaneInfoTiming.ON_TIME
        return PaneInfo(index == 0, last, timing, index, on_time)

    def _finish(self, windows: KeyWindows, found: OpenWindow) -> None:
        windows.clear(found)
        state = found.state
        state.finished = True
        state.fresh = False
        state.hold = None
