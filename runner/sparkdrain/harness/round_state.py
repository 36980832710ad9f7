"""User state and timers that last between rounds: what a stateful DoFn sees of the present key.

A key has its turn whenever elements came for it or its timers are due. State is read at first use
and written back when the turn ends; timers go to the overlay at once, since they may be due in the
same turn. The overlay ends or undoes rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders.coder_impl import PaneInfoCoderImpl
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.errors import Unsupported
from sparkdrain.harness.drain_timers import TimerBound, marked
from sparkdrain.harness.round_cells import ROUND_CELLS, Kind, micros
from timers_state import Domain
from timers_state.keys import I64_MAX, I64_MIN
from timers_state.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.record_state import RecordPlace
    from sparkdrain.harness.round_cells import PutOff
    from timers_state import KeyScope, Layout, Overlay
    from timers_state.ahead import StoredTimer
    from timers_state.records import Records
    from timers_state.timers import Timers

_PANES = PaneInfoCoderImpl()
_UNKNOWN_PANE: Final = _PANES.encode(PANE_INFO_UNKNOWN)
_EXPIRY: Final = b""
# So many windows of keys are remembered as known to expire; more of them are told again.
_MOST_KNOWN: Final = 100_000


class RoundKeyedState(userstate.UserStateContext):
    """One stateful DoFn's state and timers in a slot, one key at a time.

    Order of calls: ``begin_key``; elements, or timers from ``pop_due``; ``end_key``.

    Args:
        transform_id: of the DoFn.
        state_id: tells its rows in the store from those of others.
        window_coder: of its input.
        overlay: the slot's state.
        expiry_of: the time at which a window is over for good; None if windows last for ever.
    """

    def __init__(
        self,
        transform_id: str,
        state_id: int,
        window_coder: Any,
        overlay: Overlay,
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        self.transform_id = transform_id
        self.state_id = state_id
        self._window_impl = window_coder.get_impl()
        self._overlay = overlay
        self.expiry_of = expiry_of
        self._kinds: dict[Any, tuple[Kind, Callable[[Any, Any], Any]]] = {}
        self._families: dict[str, tuple[bytes, Domain]] = {}
        self._known: set[tuple[bytes, bytes]] = set()
        self._key = b""
        self._scope: KeyScope | None = None
        self._window: Any = None
        self._place: WindowPlace | None = None
        self._places: dict[bytes, WindowPlace] = {}
        self._put_off: list[PutOff] = []
        self._decoded: tuple[bytes, Any] = (b"\x00undecoded", None)
        self.bound = TimerBound()
        """What timers may be set while the job is drained."""
        self.record_place: RecordPlace | None = None
        """Where keys that are records have their turns, if any are."""

    # --- turns --------------------------------------------------------------------------------

    def begin_key(self, key: bytes) -> None:
        """What follows belongs to the key with this encoding."""
        self._key = key
        self.bound.is_on = False

    def key_at_work(self) -> bytes | None:
        """The encoding of the key that has its turn, or had it last; for another thread."""
        if self._window is None and self.record_place is not None:
            return self.record_place.records.in_use or None
        return self._key or None

    def end_key(self) -> None:
        """The key's turn is over: what has changed goes to the overlay."""
        put_off = self._put_off
        while put_off:
            put_off.pop().store()
        if self._places:
            self._places = {}
        self._scope = None
        self._place = None
        self._window = None

    def rest(self) -> None:
        """No key has its turn until the next call of another method."""
        if self.record_place is not None:
            self.record_place.rest()

    def check_turn_is_over(self) -> None:
        """No key has its turn, so nobody may have changed a cell.

        Raises:
            RuntimeError: somebody has, whose change would be lost, or another key's.
        """
        changed: list[Any] = [*self._put_off]
        if self.record_place is not None:
            changed += self.record_place.changed_cells()
        if changed:
            raise RuntimeError(changed[0].kind.out_of_turn())

    end = end_key
    is_outgrown = False
    """See ``RecordPlace``."""

    def close(self) -> None:
        """Tear down what was set up for state; nothing is forgotten."""
        for kind, _ in self._kinds.values():
            kind.close()
        self._kinds = {}

    def scope(self) -> KeyScope:
        """The present key's scope."""
        scope = self._scope
        if scope is None:
            scope = self._scope = self._overlay.scope(self.state_id, self._key)
        return scope

    @property
    def window(self) -> Any:
        """The window whose state was asked for last in this turn, if any."""
        return self._window

    # --- for keys that have records -------------------------------------------------------------

    def records(self, layout: Layout) -> Records:
        """The records of the DoFn's keys."""
        return self._overlay.records(self.state_id, layout)

    def scope_of(self, key: bytes) -> KeyScope:
        """The scope of any key; if it has records, they move there."""
        return self._overlay.scope(self.state_id, key)

    def encode_window(self, window: Any) -> bytes:
        """A window as the store knows it."""
        encoded: bytes = self._window_impl.encode(window)
        return encoded

    def kind(self, spec: Any) -> Kind:
        """What all cells of a state share."""
        return (self._kinds.get(spec) or self._kind(spec))[0]

    # --- what Beam asks -----------------------------------------------------------------------

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """The cell of ``state_spec`` in ``window``, made at first use."""
        place = self._place
        if place is None or window is not self._window:
            place = self.enter(window, key)
        return self.cell(place, state_spec)

    def get_timer(
        self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any
    ) -> RoundTimer:
        """A handle to set and clear timers of a family, for ``window``."""
        place = self._place
        if place is None or window is not self._window:
            place = self.enter(window, key)
        family, domain = self._families.get(timer_spec.name) or self.family(timer_spec)
        return RoundTimer(place, family, domain, timestamp, pane)

    def commit(self) -> None:
        """Nothing: rounds are ended by the slot."""

    def reset(self) -> None:
        """Nothing: state lasts longer than bundles."""

    # --- the same, for who calls a DoFn in Beam's place ---------------------------------------

    def enter(self, window: Any, key: Any) -> WindowPlace:
        """The place of a window of the present key."""
        section = self._window_impl.encode(window)
        place = self._places.get(section)
        if place is None:
            place = self._places[section] = WindowPlace(self, section, window, key)
        self._window = window
        self._place = place
        return place

    def cell(self, place: WindowPlace, spec: Any) -> Any:
        """The cell of a state in a window, made at first use."""
        cell = place.cells.get(spec)
        if cell is None:
            kind, make = self._kinds.get(spec) or self._kind(spec)
            cell = place.cells[spec] = make(kind, place)
        return cell

    def family(self, spec: Any) -> tuple[bytes, Domain]:
        """How the store knows the timers of a ``TimerSpec``."""
        event_time = TimeDomain.is_event_time(spec.time_domain)
        found = spec.name.encode(), Domain.EVENT if event_time else Domain.PROCESSING
        self._families[spec.name] = found
        return found

    def _kind(self, spec: Any) -> tuple[Kind, Callable[[Any, Any], Any]]:
        for class_ in type(spec).__mro__:
            if class_ in ROUND_CELLS:
                kind, make = ROUND_CELLS[class_]
                self._kinds[spec] = found = kind(self.transform_id, spec), make
                return found
        message = f"{self.transform_id!r}: state {spec.name!r} is of a kind not known here"
        raise Unsupported(message)

    # --- timers -------------------------------------------------------------------------------

    def pop_due(self, event: int, processing: int | None) -> tuple[Timer, Any] | None:
        """Take out the present key's next timer, with the pane that it was set in.

        Those of event time come first, in time order; then those of processing time.

        Args:
            event: event time up to which timers are due.
            processing: the same for processing time; None if no timer follows that.
        """
        scope = self.scope()
        found = scope.timers(Domain.EVENT).pop_due(event)
        domain = Domain.EVENT
        if found is None:
            if processing is None:
                return None
            domain = Domain.PROCESSING
            found = scope.timers(domain).pop_due(processing)
            if found is None:
                return None
            scope.timers(Domain.HOLD).clear(found.family, found.tag, found.window)
        payload = self.bound.fires(domain, found.time, found.payload)
        return found, decoded_pane(payload)

    def take(self, timer: StoredTimer) -> tuple[Timer, Any] | None:
        """As ``pop_due``, for an event timer of the present key that was read from the store.

        Returns:
            None if state or timers of the key were asked for in this turn: then ``pop_due`` has it.
        """
        if self._scope is not None:
            return None
        if not self._overlay.take(self.state_id, Domain.EVENT, self._key, timer):
            return None
        payload = self.bound.fires(Domain.EVENT, timer[0], timer[4])
        return tuple.__new__(Timer, timer[:5]), decoded_pane(payload)

    def all_taken(self, horizon: int) -> bool:
        """All that the store has up to a time was taken; whether ``pop_due`` may have more."""
        scope = self._scope
        if scope is None:
            return False
        scope.timers(Domain.EVENT).none_until(horizon)
        return True

    def decode_window(self, section: bytes) -> Any:
        """A window as the store knows it."""
        known, window = self._decoded
        if known != section:
            window = self._window_impl.decode(section)
            self._decoded = section, window
        return window

    def expire(self, up_to: int) -> None:
        """Forget the present key's windows that expire at or before ``up_to``.

        A window that still has timers lasts until they have fired: call ``expire_window`` then.
        """
        for timer in self.scope().timers(Domain.EXPIRY).due(up_to):
            self._expire(timer.window)

    def expire_window(self, window: Any) -> None:
        """Forget a window that has expired, and whose timers have fired, if these were the last."""
        section = self._window_impl.encode(window)
        name = (_EXPIRY, b"")
        if self._overlay.time_of(self.state_id, Domain.EXPIRY, self._key, section, name) is None:
            self._expire(section)

    def forget_key(self) -> None:
        """Forget the present key."""
        self.scope().forget()
        self._scope = None

    def forget_all(self) -> None:
        """Forget all keys."""
        self._scope = None
        self._known.clear()
        self._overlay.forget_all(self.state_id)

    def _expire(self, section: bytes) -> None:
        scope = self.scope()
        if any(scope.timers(d).is_any_set(section) for d in (Domain.EVENT, Domain.PROCESSING)):
            return
        self._places.pop(section, None)
        self._known.discard((self._key, section))
        scope.forget_window(section)

    def keep(self, section: bytes, window: Any) -> None:
        """Something is kept for ``window`` of the present key: see to it that it expires."""
        expiry_of = self.expiry_of
        if expiry_of is None:
            return
        known = self._known
        ident = (self._key, section)
        if ident in known:
            return
        self.scope().timers(Domain.EXPIRY).set(expiry_of(window), _EXPIRY, b"", section)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known.add(ident)


class WindowPlace:
    """A window of the present key: see ``round_cells.Place``."""

    __slots__ = ("_context", "_is_kept", "_key", "bound", "cells", "section", "window")

    def __init__(self, context: RoundKeyedState, section: bytes, window: Any, key: Any) -> None:
        self._context = context
        self._key = key
        self._is_kept = False
        self.bound = context.bound
        self.cells: dict[Any, Any] = {}
        self.section = section
        self.window = window

    def scope(self) -> KeyScope:
        return self._context._scope or self._context.scope()  # noqa: SLF001 - a part of it

    def keep(self) -> None:
        if not self._is_kept:
            self._is_kept = True
            self._context.keep(self.section, self.window)

    def admits(self, family: bytes, domain: Domain, time: int) -> int | None:
        """The generation of a timer that is set by a callback; None if a drain refuses it."""
        expiry_of = self._context.expiry_of
        return self.bound.admits(family, domain, time, self.window, expiry_of)

    def put_off(self, cell: PutOff) -> None:
        self._context._put_off.append(cell)  # noqa: SLF001 - a part of it

    def where(self) -> str:
        return f"key {self._key!r}, window {self.window}"


class RoundTimer(userstate.BaseTimer):
    """Sets and clears timers of one family, key and window.

    What fires in event time holds the output frontier at its time. What fires in processing time
    holds it at the time of the element, or of the timer, that set it.
    """

    __slots__ = ("_domain", "_family", "_pane", "_place", "_timers", "_timestamp")

    def __init__(
        self, place: WindowPlace, family: bytes, domain: Domain, timestamp: Any, pane: Any
    ) -> None:
        self._place = place
        self._family = family
        self._domain = domain
        self._timestamp = timestamp
        self._pane = pane
        self._timers: Timers | None = None

    def set_in(self, pane: Any) -> RoundTimer:
        """Itself, for the next element of the same window."""
        self._pane = pane
        return self

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Fire at ``timestamp``; replaces an earlier setting of the same tag."""
        time, place, domain = bounded(timestamp), self._place, self._domain
        payload = payload_of(place, self._family, domain, time, self._pane)
        if payload is None:
            return
        place.keep()
        tag = dynamic_timer_tag.encode() if dynamic_timer_tag else b""
        timers = self._timers
        if timers is None:
            timers = self._timers = place.scope().timers(domain)
        timers.set(time, self._family, tag, place.section, payload)
        if domain is Domain.PROCESSING:
            hold = micros(self._timestamp)
            place.scope().timers(Domain.HOLD).set(hold, self._family, tag, place.section)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take back the setting of this tag, if there is one."""
        place = self._place
        tag = dynamic_timer_tag.encode()
        place.scope().timers(self._domain).clear(self._family, tag, place.section)
        if self._domain is Domain.PROCESSING:
            place.scope().timers(Domain.HOLD).clear(self._family, tag, place.section)


def bounded(timestamp: Any) -> int:
    """The microseconds of a timestamp; Beam's have no ends."""
    time = timestamp.micros if type(timestamp) is Timestamp else micros(timestamp)
    return min(max(time, I64_MIN), I64_MAX)


def payload_of(
    place: WindowPlace | RecordPlace, family: bytes, domain: Domain, time: int, pane: Any
) -> bytes | None:
    """What goes with a timer that is set in a pane; None if a drain refuses it."""
    payload = _encoded_pane(pane)
    if not place.bound.is_on:
        return payload
    generation = place.admits(family, domain, time)
    return None if generation is None else marked(generation, payload)


def decoded_pane(payload: bytes) -> Any:
    """The pane of a payload, without what ``marked`` has put before it."""
    return _PANES.decode(payload) if payload else PANE_INFO_UNKNOWN


def _encoded_pane(pane: Any) -> bytes:
    """A pane, or nothing for the one that nearly all elements have."""
    if pane is PANE_INFO_UNKNOWN:
        return b""
    encoded: bytes = _PANES.encode(pane)
    return b"" if encoded == _UNKNOWN_PANE else encoded
