"""State and timers of keys that are large: cells and timers that move from scope to scope.

A key has its turn whenever elements came for it, or its timers are due. Single values are written
back when the turn ends. Timers and items go to the scope at once, since timers may be due in the
same turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from sparkdrain.harness.key_place import KeyPlace
from sparkdrain.harness.timers import pane_of
from timers_state.keys import EVENT, EXPIRY, HOLD, PROCESSING
from timers_state.large.key import LargeKey

if TYPE_CHECKING:
    from sparkdrain.harness.drain_timers import TimerBound
    from sparkdrain.harness.key_place import DofnState, DueTimer
    from timers_state import Domain
    from timers_state.keys import TimerName
    from timers_state.overlay.residence import StoredTimer

_EXPIRY: Final = b""
# So many windows of keys are remembered as known to expire; more of them are told again.
_MOST_KNOWN: Final = 100_000


class LargePlace(KeyPlace):
    """Where a large key has its turn, in one window at a time.

    Order of calls: ``begin``; ``enter``, then user code or timers from ``pop_due``; ``end``.
    """

    is_large = True
    is_outgrown = False

    def __init__(self, context: DofnState, bound: TimerBound) -> None:
        self._context = context
        self._overlay = context.overlay
        self._state_id = context.state_id
        self.expiry_of = context.expiry_of
        self.expires = context.expiry_of is not None
        self.bound = bound
        self._turn = LargeKey(context.overlay, context.state_id)
        self.record: Any = self._turn
        self.records: Any = self._turn
        self.key: Any = None
        self.window: Any = None
        self._last_window: Any = None
        self._last_section = b""
        self._is_kept = False
        self._known = context.known
        self.timers = {}
        self.cells = {
            spec.name: context.make_cell(spec, self, self._turn.add_state(*stored))
            for spec, stored in zip(context.states, context.layout.values, strict=True)
        }

    # --- turns --------------------------------------------------------------------------------

    def begin(self, encoded: bytes) -> bool:
        """What follows belongs to the key with this encoding; True, since any key can be large."""
        self._context.place = self
        self.record = self._turn
        self._turn.begin(encoded)
        self.bound.is_on = False
        return True

    def enter(self, window: Any, key: Any) -> None:
        """Calls that follow are for this window of the key."""
        self.key = key
        if window is self._last_window:
            section = self._last_section
        else:
            section = self._last_section = self._context.encode_window(window)
            self._last_window = window
        if self.window is not None:
            if section == self._turn.window:  # cells go on with what they have
                self.window = window
                return
            self._leave()
        self.window = window
        self._turn.window = section
        self._is_kept = False
        for cell in self.cells.values():
            cell.renew()

    def end(self) -> None:
        """The turn is over: what has changed goes to the scope."""
        if self.window is not None:
            self._leave()
            self.window = None
        self._turn.begin(self._turn.key)

    def rest(self, record: Any) -> None:
        """No key has its turn; cells and timers are given the record of no key."""
        self.record = record
        self._is_kept = True
        for cell in self.cells.values():
            cell.renew()

    def _leave(self) -> None:
        for cell in self.cells.values():
            if cell.is_changed:
                cell.store()

    # --- what cells and timers ask ------------------------------------------------------------

    @override
    def items(self, number: int) -> None:
        del number

    @override
    def open(self, number: int) -> Any:
        return self.record.cell(number)

    @override
    def number(self, family: bytes) -> int:
        return self._turn.number(family)

    @override
    def keep(self) -> None:
        expiry_of = self.expiry_of
        if self._is_kept or expiry_of is None:
            return
        self._is_kept = True
        known, turn = self._known, self._turn
        ident = (turn.key, turn.window)
        if ident in known:
            return
        turn.scope().timers(EXPIRY).set(expiry_of(self.window), _EXPIRY, b"", turn.window)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known.add(ident)

    @override
    def set_timer(self, name: TimerName, time: int, payload: bytes) -> None:
        self.keep()
        self.record.set_other(self.record, name, time, payload)

    @override
    def clear_timer(self, name: TimerName) -> None:
        self.record.clear_other(self.record, name)

    # --- timers that fire ---------------------------------------------------------------------

    def pop_due(self, event: int, processing: int | None) -> DueTimer | None:
        """Take out the present key's next timer.

        Those of event time come first, in time order; then those of processing time.

        Args:
            event: event time up to which timers are due.
            processing: the same for processing time; None if no timer follows that.
        """
        scope = self._turn.scope()
        found = scope.timers(EVENT).pop_due(event)
        domain = EVENT
        if found is None:
            if processing is None:
                return None
            domain = PROCESSING
            found = scope.timers(domain).pop_due(processing)
            if found is None:
                return None
            scope.timers(HOLD).clear(found.family, found.tag, found.window)
        return self._due(domain, *found)

    def take(self, timer: StoredTimer) -> DueTimer | None:
        """As ``pop_due``, for an event timer of the present key that was read from the store.

        Returns:
            None if state or timers of the key were asked for in this turn: then ``pop_due`` has it.
        """
        turn = self._turn
        if turn.is_open or not self._overlay.take(self._state_id, EVENT, turn.key, timer):
            return None
        return self._due(EVENT, *timer[:5])

    def _due(
        self, domain: Domain, time: int, section: bytes, family: bytes, tag: bytes, payload: bytes
    ) -> DueTimer:
        window = self._context.decode_window(section)
        return window, time, window, family, tag, pane_of(self.bound, domain, time, payload)

    def all_taken(self, horizon: int) -> bool:
        """All that the store has up to a time was taken; whether ``pop_due`` may have more."""
        if not self._turn.is_open:
            return False
        self._turn.scope().timers(EVENT).none_until(horizon)
        return True

    def expire(self, up_to: int) -> None:
        """Forget the present key's windows that expire at or before ``up_to``.

        A window that still has timers lasts until they have fired: call ``expire_window`` then.
        """
        for timer in self._turn.scope().timers(EXPIRY).due(up_to):
            self._expire(timer.window)

    def expire_window(self, window: Any) -> None:
        """Forget a window that has expired, and whose timers have fired, if these were the last."""
        section, name = self._context.encode_window(window), (_EXPIRY, b"")
        key = self._turn.key
        if self._overlay.time_of(self._state_id, EXPIRY, key, section, name) is None:
            self._expire(section)
            self._turn.begin(key)

    def forget_all(self) -> None:
        """Forget all keys."""
        self._turn.begin(b"")
        self._known.clear()
        self._overlay.forget_all(self._state_id)

    def _expire(self, section: bytes) -> None:
        scope = self._turn.scope()
        if any(scope.timers(d).is_any_set(section) for d in (EVENT, PROCESSING)):
            return
        self._known.discard((self._turn.key, section))
        scope.forget_window(section)
