"""Beam's own trigger driver, fed round by round: what our groupings are compared with."""

from __future__ import annotations

from collections import defaultdict

from apache_beam.transforms.trigger import GeneralTriggerDriver, InMemoryUnmergedState
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from round_driver import seen_pane

from sparkdrain.shuffle.group_by_key import in_millis


class Clock:
    def time(self):
        msg = "processing time is not compared: Beam's driver takes it for a watermark"
        raise AssertionError(msg)


class BeamRounds:
    """The same calls as ``Rounds``, for triggers of event time and counts."""

    def __init__(self, windowing, context):
        self._driver = GeneralTriggerDriver(windowing, Clock())
        self._states = defaultdict(InMemoryUnmergedState)
        self._context = context
        self._frontier = Timestamp(micros=-(1 << 60))

    def round(self, elements, frontier):
        by_key = defaultdict(list)
        for key, value, seconds in elements:
            by_key[key].append(self._context(value, seconds).with_value(value))
        panes = []
        for key, values in by_key.items():
            found = self._driver.process_elements(
                self._states[key], values, self._frontier, self._frontier
            )
            panes += [self._seen(key, pane) for pane in found]
        self._frontier = Timestamp(micros=frontier)
        for key, state in self._states.items():
            panes += [self._seen(key, pane) for pane in self._fire(state)]
        return panes

    def _fire(self, state):
        while True:
            timers, _ = state.get_timers(watermark=MAX_TIMESTAMP)
            due = [timer for timer in timers if timer[1][2] <= self._frontier]
            if not due:
                return
            window, (name, domain, time, _) = min(due, key=lambda timer: timer[1][2])
            state.clear_timer(window, name, domain)
            yield from self._driver.process_timer(window, name, domain, time, state)

    def _seen(self, key, pane):
        time = in_millis(Timestamp.of(pane.timestamp))
        return seen_pane(key, pane.value, pane.windows[0], time, pane.pane_info)
