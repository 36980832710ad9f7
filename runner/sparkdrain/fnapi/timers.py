"""Timers of stateful DoFns, between the slot's overlay and the timer channel."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders
from apache_beam.coders.coder_impl import PaneInfoCoderImpl, create_InputStream
from apache_beam.coders.coders import _TimerCoder as TimerCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.fnapi.elements import check_windows, unprefixed
from sparkdrain.fnapi.errors import garbled
from sparkdrain.harness.drain_timers import TimerBound, marked
from sparkdrain.panes.times import end_of
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sparkdrain.fnapi.lives import WindowLives
    from sparkdrain.harness.harness import StateTerms
    from sparkdrain.harness.limits import UpTo
    from timers_state.large.timers import Timer

_EVENT_TIME: Final = beam_runner_api_pb2.TimeDomain.EVENT_TIME
# The first byte is never that of a mark, see ``drain_timers``.
_HOLD: Final = struct.Struct(">xq")
# Java has a time behind the end of time for timers that hold nothing, and may make nothing.
_HOLDS_NOTHING: Final = END + 1
_NOTHING_HELD: Final = Timestamp(micros=END + 1000)
_PANES: Final = PaneInfoCoderImpl()
_MOST_AWAITED: Final = 10_000


class TimerFamilies:
    """The timers of one DoFn.

    Args:
        terms: where and how long the DoFn's state is kept.
        domains: Beam's time domain of each family.
        on_expiry: the family that fires when a window is over; "" if there is none.
        lateness: allowed lateness of the windows, microseconds.
        script: the processing time that counts, if a harness sets timers by a clock of its own.
    """

    def __init__(
        self,
        terms: StateTerms,
        lives: WindowLives,
        domains: Mapping[str, int],
        window: coders.Coder,
        on_expiry: str = "",
        lateness: int = 0,
        script: Callable[[], int] | None = None,
    ) -> None:
        self._terms = terms
        self._script = script
        self._lives = lives
        self._domains = {
            family: Domain.EVENT if domain == _EVENT_TIME else Domain.PROCESSING
            for family, domain in domains.items()
        }
        # The key is bytes with their length.
        self._impl = TimerCoder(coders.BytesCoder(), window).get_impl()
        self._window = window.get_impl()
        self._on_expiry = on_expiry.encode()
        self._lateness = lateness
        # Windows whose expiry will be told.
        self._awaited: set[tuple[bytes, bytes]] = set()
        # Of keys whose timers are being fired, see ``drain_timers``.
        self._bounds: dict[bytes, TimerBound] = {}
        self._refused: Counter[bytes] = Counter()
        # Windows that have expired, and of which timers are being fired.
        self._over: set[tuple[bytes, bytes]] = set()

    def has_come(self, key: bytes, elements: Iterable[Any]) -> None:
        """A key has elements: the DoFn may want to be told when their windows are over."""
        if not self._on_expiry:
            return
        for window in {window for element in elements for window in element.windows}:
            section = self._window.encode(window)
            if (key, section) in self._awaited:
                continue
            last = window.max_timestamp().micros
            payload = _HOLD.pack(last) + _PANES.encode(PANE_INFO_UNKNOWN)
            self._lives.keep(key, section)
            self._lives.scope(key).timers(Domain.EVENT).set(
                min(end_of(window) - 1 + self._lateness, END),
                self._on_expiry,
                b"",
                section,
                payload,
            )
            if len(self._awaited) >= _MOST_AWAITED:
                self._awaited.clear()
            self._awaited.add((key, section))

    def take(self, family: str, data: bytes) -> None:
        """Set and clear timers as a harness says.

        Raises:
            HarnessGarbled: the DoFn has no such family, or the data is no timers.
        """
        if family not in self._domains:
            why = f"the DoFn has no family {family!r}"
            raise garbled(why, "timers")
        domain, name = self._domains[family], family.encode()
        for timer in self._read(data):
            tag = timer.dynamic_timer_tag.encode()
            for window in timer.windows:
                if timer.clear_bit:
                    self._clear(timer.user_key, domain, (name, tag, self._window.encode(window)))
                else:
                    self._set(timer, domain, (name, tag), window)

    def _read(self, data: bytes) -> list[Any]:
        stream, timers = create_InputStream(data), []
        try:
            while stream.size() > 0:
                _, behind_key = unprefixed(data, len(data) - stream.size())
                check_windows(data, unprefixed(data, behind_key)[1])
                timers.append(self._impl.decode_from_stream(stream, True))
        except Exception as error:  # Beam's streams tell their end in many ways
            raise garbled(repr(error), "timers") from error
        if stream.size() < 0:
            missing = f"{-stream.size()} bytes are missing at the end"
            raise garbled(missing, "timers")
        return timers

    def _clear(self, key: bytes, domain: Domain, name: tuple[bytes, bytes, bytes]) -> None:
        scope = self._lives.scope(key)
        scope.timers(domain).clear(*name)
        scope.timers(Domain.HOLD).clear(*name)

    def _set(self, timer: Any, domain: Domain, name: tuple[bytes, bytes], window: Any) -> None:
        key, time = timer.user_key, timer.fire_timestamp.micros
        if self._script is not None and domain is Domain.PROCESSING:
            time = self._script() + max(0, time - Timestamp.now().micros)
        hold = min(timer.hold_timestamp.micros, _HOLDS_NOTHING)
        section = self._window.encode(window)
        generation: int | None = 0
        if (bound := self._bounds.get(key)) is not None and bound.is_on:
            generation = bound.admits(name[0], domain, time, window, self._terms.expiry_of)
        if generation is None:
            return
        self._lives.keep(key, section)
        payload = marked(generation, _HOLD.pack(hold) + _PANES.encode(timer.paneinfo))
        scope = self._lives.scope(key)
        scope.timers(domain).set(time, *name, section, payload)
        # A timer of event time holds its own time.
        if hold < _HOLDS_NOTHING and (domain is Domain.PROCESSING or hold < time):
            scope.timers(Domain.HOLD).set(hold, *name, section)
        else:
            scope.timers(Domain.HOLD).clear(*name, section)

    def due(self, up_to: UpTo) -> list[tuple[str, bytes]]:
        """Take out timers that are due: of each key those of its earliest time.

        A callback may set, or clear, any timer of its key that is later. Event time comes first.
        Call ``fired`` when the callbacks have run.

        Returns:
            The family and the encoding of each.
        """
        for domain, time in (
            (Domain.EVENT, up_to.event),
            (Domain.PROCESSING, up_to.processing),
        ):
            found = list(self._due(domain, time, up_to))
            if found:
                return found
        return []

    def _due(self, domain: Domain, up_to: int, limits: UpTo) -> Iterator[tuple[str, bytes]]:
        overlay, state_id, later = self._terms.overlay, self._terms.state_id, []
        began = False
        while (key := overlay.next_due(state_id, domain, up_to)) is not None:
            if began and limits.budget.is_spent():
                break
            began = True
            timers = self._lives.scope(key).timers(domain)
            first: int | None = None
            for timer in timers.due(up_to):
                first = timer.time if first is None else first
                if timer.time == first:
                    limits.budget.spend(1)
                    yield timer.family.decode(), self._fires(key, timer, domain, limits)
                else:
                    later.append((key, timer))
        for key, timer in later:
            self._lives.scope(key).timers(domain).set(
                timer.time, timer.family, timer.tag, timer.window, timer.payload
            )

    def _fires(self, key: bytes, timer: Timer, domain: Domain, limits: UpTo) -> bytes:
        """A timer fires; its encoding."""
        if self._lives.is_over(timer.window, limits.event):
            self._over.add((key, timer.window))
        bound = self._bounds.get(key)
        if bound is None:
            bound = self._bounds[key] = TimerBound()
            bound.repeats = limits.repeats
        payload = bound.fires(domain, timer.time, timer.payload)
        hold = _HOLD.unpack_from(payload)[0]
        if domain is Domain.PROCESSING or hold < timer.time:
            holds = self._lives.scope(key).timers(Domain.HOLD)
            holds.clear(timer.family, timer.tag, timer.window)
        beams: Any = userstate.Timer(
            user_key=key,
            dynamic_timer_tag=timer.tag.decode(),
            windows=(self._window.decode(timer.window),),
            clear_bit=False,
            fire_timestamp=Timestamp(micros=timer.time),
            hold_timestamp=_NOTHING_HELD if hold > END else Timestamp(micros=hold),
            paneinfo=_PANES.decode(payload[_HOLD.size :]),
        )
        encoded: bytes = self._impl.encode_nested(beams)
        return encoded

    def fired(self) -> None:
        """The callbacks of timers that were due have run."""
        for bound in self._bounds.values():
            self._refused.update(bound.refused)
        self._bounds.clear()
        over, self._over = self._over, set()
        self._lives.end(over)

    def take_refused(self) -> list[tuple[str, int]]:
        """Timers that a drain has refused since the last call: family, how many."""
        refused, self._refused = self._refused, Counter()
        return [(family.decode(), count) for family, count in refused.items()]
