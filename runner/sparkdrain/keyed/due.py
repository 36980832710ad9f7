"""All timers of one stateful DoFn that are due, whichever way its keys are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.keyed.firing import BeamTimers, CallingTimers, Firing
from sparkdrain.keyed.record_firing import RecordFiring
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.harness.bundle import StageBundle
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.keyed.inlet import Inlet
    from sparkdrain.keyed.stateful import Stateful
    from sparkdrain.keyed.up_to import UpTo
    from timers_state import Overlay
    from timers_state.ahead import DueKey

# Timers are read so many at a time. What the budget has no room for is read again.
_READ_AHEAD: Final = 250


class Due:
    """Fires timers, and forgets windows that are over.

    Event timers first: of keys that only the store has in its order, with the payloads, then those
    of all other keys. Nothing is made before something is due.

    Args:
        one: the DoFn.
        up_to: what is due.
        inlet: where its elements enter the stage.
        overlay: the slot's state.
        decode_key: of its input.
        expiry_of: the time at which a window is over for good; None if windows last for ever.
    """

    def __init__(
        self,
        one: Stateful,
        up_to: UpTo,
        inlet: Inlet,
        overlay: Overlay,
        decode_key: Callable[[bytes], Any],
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        self._one = one
        self._up_to = up_to
        self._inlet = inlet
        self._overlay = overlay
        self._decode_key = decode_key
        self._expiry_of = expiry_of
        self._of_records: RecordFiring | None = None
        self._of_scopes: Firing | None = None
        self._began = False

    def fire(self) -> bool:
        """Fire everything; whether the budget was enough. Something fires in any case."""
        records = self._of_records = self._record_firing()
        if records is not None and not records.fire_all():
            return False
        up_to = self._up_to
        return (
            self._fire_stored()
            and self._fire_keys(Domain.EVENT, up_to.event)
            and self._fire_keys(Domain.PROCESSING, up_to.processing)
            and (self._forget_all() if up_to.event == END else self._expire(up_to.event))
        )

    def _fire_stored(self) -> bool:
        """Event timers that the store has, of keys that have no records."""
        overlay, state_id, after = self._overlay, self._one.state_id, self._up_to.event
        if overlay.next_due(state_id, Domain.EVENT, after) is None:
            return True
        while due := overlay.read_due(state_id, Domain.EVENT, after, _READ_AHEAD):
            if not self._fire_read(due):
                return False
            overlay.read_on(state_id, Domain.EVENT)
        return True

    def _fire_read(self, due: Sequence[DueKey]) -> bool:
        """Timers that were read of many keys; False if the budget is spent, perhaps amid a key."""
        firing = self._firing()
        with firing.at_work():
            for key in due:
                if self._is_over():
                    return False
                firing.fire_read(key)
                self._began = True
        return not self._up_to.budget.is_spent()

    def _fire_keys(self, domain: Domain, up_to: int) -> bool:
        records = self._of_records
        if domain is Domain.PROCESSING and records is not None and not records.fire_clock():
            return False
        while (key := self._overlay.next_due(self._one.state_id, domain, up_to)) is not None:
            if self._is_over():
                return False
            self._firing_of(key).fire(key, of_clock=domain is Domain.PROCESSING)
            self._began = True
        return True

    def _expire(self, up_to: int) -> bool:
        state_id = self._one.state_id
        while (key := self._overlay.next_due(state_id, Domain.EXPIRY, up_to)) is not None:
            if self._is_over():
                return False
            self._firing_of(key).expire(key)
            self._began = True
        return True

    def _forget_all(self) -> bool:
        """Time is at its end, and nothing is due anymore: all windows go at once."""
        if self._overlay.first_time(self._one.state_id, Domain.EXPIRY) is not None:
            self._bundle().states[self._one.transform].large.forget_all()
        return True

    def _is_over(self) -> bool:
        return self._began and self._up_to.budget.is_spent()

    # --- who fires ----------------------------------------------------------------------------

    def _firing_of(self, key: bytes) -> Firing | RecordFiring:
        if self._of_records is not None and self._of_records.has(key):
            return self._of_records
        return self._firing()

    def _bundle(self) -> StageBundle:
        return self._inlet.bundle()

    def _calls(self) -> StatefulCalls | None:
        return self._bundle().stateful_calls(self._inlet.transform, self._one.transform)

    def _record_firing(self) -> RecordFiring | None:
        """Fires timers of keys that are records, if any timer is due."""
        up_to, state_id = self._up_to, self._one.state_id
        ends = (
            (Domain.EVENT, up_to.event),
            (Domain.EXPIRY, up_to.event),
            (Domain.PROCESSING, up_to.processing),
        )
        firsts = [(self._overlay.first_time(state_id, domain, end), end) for domain, end in ends]
        if all(first is None or first > end for first, end in firsts):
            return None
        calls = self._calls()
        if calls is None:
            return None
        context = self._bundle().states[self._one.transform]
        return RecordFiring(calls, context, up_to, self._decode_key, self._expiry_of)

    def _firing(self) -> Firing:
        """Fires timers of keys that are not."""
        firing = self._of_scopes
        if firing is None:
            bundle, calls = self._bundle(), self._calls()
            transform = self._one.transform
            firing = self._of_scopes = Firing(
                bundle.states[transform],
                BeamTimers(bundle.ops[transform].process_timer)
                if calls is None
                else CallingTimers(calls),
                self._up_to,
                self._decode_key,
                self._expiry_of,
            )
        return firing
