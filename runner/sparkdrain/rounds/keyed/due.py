"""All that is due for one stateful DoFn in one turn, whichever way its keys are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.rounds.keyed.record_firing import RecordFiring
from sparkdrain.rounds.keyed.turns import BeamTimers, CallingTimers, Firing
from sparkdrain.watermarks.frontier import END
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.bundle import StageBundle
    from sparkdrain.harness.stateful import StatefulCalls
    from sparkdrain.rounds.inputs import Turn
    from sparkdrain.stages.shard import Source
    from timers_state import Overlay
    from timers_state.ahead import DueKey

# Timers are read so many at a time. What the budget has no room for is read again.
_READ_AHEAD: Final = 250


@dataclass(frozen=True, slots=True)
class Stateful:
    """A DoFn with state or timers, and the number of what it keeps."""

    transform: TransformId
    state_id: int


class Due:
    """Fires timers, and forgets windows that are over.

    Event timers first: of keys that only the store has in its order, with the payloads, then those
    of all other keys. Nothing is made before something is due.

    Args:
        one: the DoFn.
        turn: what is due.
        source: where its elements enter the stage.
        overlay: the slot's state.
        decode_key: of its input.
        expiry_of: the time at which a window is over for good; None if windows last for ever.
    """

    def __init__(
        self,
        one: Stateful,
        turn: Turn,
        source: Source,
        overlay: Overlay,
        decode_key: Callable[[bytes], Any],
        expiry_of: Callable[[Any], int] | None,
    ) -> None:
        self._one = one
        self._turn = turn
        self._source = source
        self._overlay = overlay
        self._decode_key = decode_key
        self._expiry_of = expiry_of
        self._processing = END if turn.after == END else turn.now
        self._of_records: RecordFiring | None = None
        self._of_scopes: Firing | None = None
        self._began = False

    def fire(self) -> bool:
        """Fire everything; whether the budget was enough. Something fires in any case."""
        records = self._of_records = self._record_firing()
        if records is not None and not records.fire_all():
            return False
        turn = self._turn
        return (
            self._fire_held()
            and self._fire_stored()
            and self._fire_keys(Domain.EVENT, turn.after)
            and self._fire_keys(Domain.PROCESSING, self._processing)
            and (self._forget_all() if turn.after == END else self._expire(turn.after))
        )

    def _fire_held(self) -> bool:
        """Event timers that are in memory, of keys that have no records."""
        overlay, state_id, after = self._overlay, self._one.state_id, self._turn.after
        at_end = after == END

        def read() -> list[DueKey]:
            return overlay.read_held(state_id, Domain.EVENT, after, _READ_AHEAD, at_end=at_end)

        while due := read():
            if not self._fire_read(due):
                return False
        return True

    def _fire_stored(self) -> bool:
        """Event timers that the store has, of keys that have no records."""
        overlay, state_id, after = self._overlay, self._one.state_id, self._turn.after
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
        return not self._turn.budget.is_spent()

    def _fire_keys(self, domain: Domain, up_to: int) -> bool:
        while (key := self._overlay.next_due(self._one.state_id, domain, up_to)) is not None:
            if self._is_over():
                return False
            self._firing_of(key).fire(key)
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
            self._bundle().states[self._one.transform].forget_all()
        return True

    def _is_over(self) -> bool:
        return self._began and self._turn.budget.is_spent()

    # --- who fires ----------------------------------------------------------------------------

    def _firing_of(self, key: bytes) -> Firing | RecordFiring:
        if self._of_records is not None and self._of_records.has(key):
            return self._of_records
        return self._firing()

    def _bundle(self) -> StageBundle:
        return self._source.shard.open()

    def _calls(self) -> StatefulCalls | None:
        return self._bundle().stateful_calls(self._source.transform, self._one.transform)

    def _record_firing(self) -> RecordFiring | None:
        """Fires timers of keys that are records, if any timer is due."""
        turn = self._turn
        domains = (Domain.EVENT, Domain.EXPIRY)
        state_id = self._one.state_id
        firsts = [self._overlay.first_time(state_id, domain, turn.after) for domain in domains]
        if all(first is None or first > turn.after for first in firsts):
            return None
        calls = self._calls()
        if calls is None or calls.records is None:
            return None
        context = self._bundle().states[self._one.transform]
        return RecordFiring(calls, calls.records, context, turn, self._decode_key, self._expiry_of)

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
                self._turn,
                self._processing,
                self._decode_key,
                self._expiry_of,
            )
        return firing
