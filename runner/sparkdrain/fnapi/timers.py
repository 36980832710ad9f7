"""Timers of stateful DoFns, between the slot's overlay and the timer channel."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders
from apache_beam.coders.coder_impl import PaneInfoCoderImpl, create_InputStream
from apache_beam.coders.coders import _TimerCoder as TimerCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sparkdrain.harness.harness import StateTerms
    from sparkdrain.harness.limits import UpTo
    from timers_state.large.timers import Timer

_EVENT_TIME: Final = beam_runner_api_pb2.TimeDomain.EVENT_TIME
_HOLD: Final = struct.Struct(">q")
_PANES: Final = PaneInfoCoderImpl()


class TimerFamilies:
    """The timers of one DoFn.

    Args:
        terms: of the DoFn's state.
        domains: Beam's time domain of each family.
        window: coder of the windows.
    """

    def __init__(self, terms: StateTerms, domains: Mapping[str, int], window: coders.Coder) -> None:
        self._overlay = terms.overlay
        self._state_id = terms.state_id
        self._domains = {
            family: Domain.EVENT if domain == _EVENT_TIME else Domain.PROCESSING
            for family, domain in domains.items()
        }
        # The key is bytes with their length.
        self._impl = TimerCoder(coders.BytesCoder(), window).get_impl()
        self._window = window.get_impl()

    def take(self, family: str, data: bytes) -> None:
        """Set and clear timers as a harness says."""
        stream = create_InputStream(data)
        domain, name = self._domains[family], family.encode()
        while stream.size() > 0:
            timer = self._impl.decode_from_stream(stream, True)
            scope = self._overlay.scope(self._state_id, timer.user_key)
            tag = timer.dynamic_timer_tag.encode()
            for window in timer.windows:
                section = self._window.encode(window)
                if timer.clear_bit:
                    scope.timers(domain).clear(name, tag, section)
                    scope.timers(Domain.HOLD).clear(name, tag, section)
                    continue
                hold = timer.hold_timestamp.micros
                payload = _HOLD.pack(hold) + _PANES.encode(timer.paneinfo)
                scope.timers(domain).set(timer.fire_timestamp.micros, name, tag, section, payload)
                if domain is Domain.PROCESSING:
                    scope.timers(Domain.HOLD).set(hold, name, tag, section)

    def due(self, up_to: UpTo) -> list[tuple[str, bytes]]:
        """Take out timers that are due: of each key those of its earliest time.

        A callback may set, or clear, any timer of its key that is later. Event time comes first.

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
        overlay, later = self._overlay, []
        began = False
        while (key := overlay.next_due(self._state_id, domain, up_to)) is not None:
            if began and limits.budget.is_spent():
                break
            began = True
            timers = overlay.scope(self._state_id, key).timers(domain)
            first: int | None = None
            for timer in timers.due(up_to):
                first = timer.time if first is None else first
                if timer.time == first:
                    limits.budget.spend(1)
                    yield timer.family.decode(), self._encoded(key, timer, domain)
                else:
                    later.append((key, timer))
        for key, timer in later:
            overlay.scope(self._state_id, key).timers(domain).set(
                timer.time, timer.family, timer.tag, timer.window, timer.payload
            )

    def _encoded(self, key: bytes, timer: Timer, domain: Domain) -> bytes:
        if domain is Domain.PROCESSING:
            holds = self._overlay.scope(self._state_id, key).timers(Domain.HOLD)
            holds.clear(timer.family, timer.tag, timer.window)
        (hold,) = _HOLD.unpack_from(timer.payload)
        beams: Any = userstate.Timer(
            user_key=key,
            dynamic_timer_tag=timer.tag.decode(),
            windows=(self._window.decode(timer.window),),
            clear_bit=False,
            fire_timestamp=Timestamp(micros=timer.time),
            hold_timestamp=Timestamp(micros=hold),
            paneinfo=_PANES.decode(timer.payload[_HOLD.size :]),
        )
        encoded: bytes = self._impl.encode_nested(beams)
        return encoded
