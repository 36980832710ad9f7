"""What user code sets timers with: made once for each timer, for the key that has its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders.coder_impl import PaneInfoCoderImpl
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.harness.cells import micros
from sparkdrain.harness.drain_timers import marked
from timers_state.keys import EVENT, HOLD, I64_MAX, I64_MIN, PROCESSING

if TYPE_CHECKING:
    from sparkdrain.harness.drain_timers import TimerBound
    from sparkdrain.harness.key_place import KeyPlace
    from timers_state import Domain

_PANES = PaneInfoCoderImpl()
_UNKNOWN_PANE: Final = _PANES.encode(PANE_INFO_UNKNOWN)


class EventTimer(userstate.BaseTimer):
    """Sets and clears the event timers of a family. They hold the output frontier at their time."""

    __slots__ = (
        "_family",
        "_is_alone",
        "_number",
        "_pane",
        "_place",
        "_records",
        "_times",
        "_timestamp",
    )

    def __init__(self, place: KeyPlace, family: bytes) -> None:
        self._place = place
        self._records = place.records
        self._family = family
        self._number = place.number(family)
        self._is_alone = place.has_one_timer()
        self._pane: Any = PANE_INFO_UNKNOWN
        self._timestamp: Any = None
        self._times = (0,)

    def set_in(self, pane: Any) -> EventTimer:
        """Itself, for the next element."""
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        if timestamp is self._timestamp:  # many keys are given the same one
            times = self._times
        else:
            times = (bounded(timestamp),)
            if type(timestamp) is Timestamp:
                self._timestamp, self._times = timestamp, times
        place = self._place
        if dynamic_timer_tag or place.bound.is_on or self._pane is not PANE_INFO_UNKNOWN:
            self._set(times[0], dynamic_timer_tag)
            return
        if place.expires:
            place.keep()
        if self._is_alone:
            self._records.set_only_timer(place.record, times)
        else:
            self._records.set_timer(place.record, self._number, times[0])

    def _set(self, time: int, tag: str) -> None:
        """Set a timer that has a pane or a tag, or that is set in a drain."""
        place = self._place
        payload = payload_of(place, self._family, EVENT, time, self._pane)
        if payload is None:
            return
        if tag:
            place.set_timer((EVENT, self._family, tag.encode()), time, payload)
            return
        if place.expires:
            place.keep()
        self._records.set_timer(place.record, self._number, time, payload)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        if dynamic_timer_tag:
            self._place.clear_timer((EVENT, self._family, dynamic_timer_tag.encode()))
        else:
            self._records.clear_timer(self._place.record, self._number)


class ProcessingTimer(userstate.BaseTimer):
    """Sets and clears the processing-time timers of a family.

    They hold the output frontier at the time of the element, or of the timer, that set them.
    """

    __slots__ = ("_family", "_pane", "_place", "_timestamp")

    def __init__(self, place: KeyPlace, family: bytes) -> None:
        self._place = place
        self._family = family
        self._timestamp: Any = None
        self._pane: Any = PANE_INFO_UNKNOWN

    def set_at(self, timestamp: Any, pane: Any) -> ProcessingTimer:
        """Itself, for the next element, or timer that fires."""
        self._timestamp = timestamp
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        place, family = self._place, self._family
        time, tag = bounded(timestamp), dynamic_timer_tag.encode()
        payload = payload_of(place, family, PROCESSING, time, self._pane)
        if payload is None:
            return
        place.set_timer((PROCESSING, family, tag), time, payload)
        place.set_timer((HOLD, family, tag), micros(self._timestamp), b"")

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        for domain in (PROCESSING, HOLD):
            self._place.clear_timer((domain, self._family, dynamic_timer_tag.encode()))


def timer_of(place: KeyPlace, spec: Any) -> EventTimer | ProcessingTimer:
    """What user code gets for a ``TimerSpec``; the same object at each call."""
    timer: EventTimer | ProcessingTimer | None = place.timers.get(spec.name)
    if timer is None:
        kind = EventTimer if TimeDomain.is_event_time(spec.time_domain) else ProcessingTimer
        timer = place.timers[spec.name] = kind(place, spec.name.encode())
    return timer


def bounded(timestamp: Any) -> int:
    """The microseconds of a timestamp; Beam's have no ends."""
    time = timestamp.micros if type(timestamp) is Timestamp else micros(timestamp)
    return min(max(time, I64_MIN), I64_MAX)


def payload_of(
    place: KeyPlace, family: bytes, domain: Domain, time: int, pane: Any
) -> bytes | None:
    """What goes with a timer that is set in a pane; None if a drain refuses the timer."""
    payload = b"" if pane is PANE_INFO_UNKNOWN else _PANES.encode(pane)
    if payload == _UNKNOWN_PANE:  # that of nearly all elements
        payload = b""
    if not place.bound.is_on:
        return payload
    generation = place.bound.admits(family, domain, time, place.window, place.expiry_of)
    return None if generation is None else marked(generation, payload)


def pane_of(bound: TimerBound, domain: Domain, time: int, payload: bytes) -> Any:
    """The pane in which a timer was set that fires now."""
    if payload or bound.repeats is not None:
        payload = bound.fires(domain, time, payload)
    return _PANES.decode(payload) if payload else PANE_INFO_UNKNOWN
