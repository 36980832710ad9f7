"""State and timers of one stateful DoFn in a slot, one key at a time.

A key is small, which is a record, or large, which is a scope. Each of both has a place, where its
turns are. Beam's own calls use the place of large keys, since they know only what Beam asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from apache_beam.transforms import userstate

from sparkdrain.harness.cells import ELSEWHERE, state_kind
from sparkdrain.harness.drain_timers import TimerBound
from sparkdrain.harness.large_place import LargePlace
from sparkdrain.harness.timers import ProcessingTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.cells import KeyPlace, SpecKind
    from sparkdrain.harness.small_place import SmallPlace
    from timers_state import KeyScope, Layout, Overlay
    from timers_state.records import Records


class KeyedState(userstate.UserStateContext):
    """What a stateful DoFn sees of the present key.

    Args:
        transform_id: of the DoFn.
        state_id: tells its rows in the store from those of others.
        window_coder: of its input.
        overlay: the slot's state.
        expiry_of: the time at which a window is over for good; None if windows last for ever.

    Attributes:
        bound: limits the timers that callbacks set while the job is drained.
        large: where large keys have their turns.
        small: where small keys have their turns; None if Beam calls the DoFn.
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
        self.expiry_of = expiry_of
        self.bound = TimerBound()
        self._window_impl = window_coder.get_impl()
        self._overlay = overlay
        self._kinds: dict[Any, SpecKind] = {}
        self._decoded: tuple[bytes, Any] = (b"\x00undecoded", None)
        self.large = LargePlace(self, overlay)
        self.small: SmallPlace | None = None

    # --- what places ask ----------------------------------------------------------------------

    def make_cell(self, spec: Any, place: KeyPlace, number: int) -> Any:
        """A cell of a state, for the keys that have their turns in a place."""
        how = state_kind(self.transform_id, spec)
        kind = self._kinds.get(spec)
        if kind is None:
            kind = self._kinds[spec] = how.kind(self.transform_id, spec)
        return how.cell(kind, place, number)

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

    def decode_window(self, section: bytes) -> Any:
        """The inverse of ``encode_window``."""
        known, window = self._decoded
        if known != section:
            window = self._window_impl.decode(section)
            self._decoded = section, window
        return window

    # --- what bundles ask ---------------------------------------------------------------------

    def key_at_work(self) -> bytes | None:
        """The encoding of the key that has its turn, or had it last; for another thread."""
        if self.large.window is None and self.small is not None:
            return self.small.records.in_use or None
        return self.large.records.key or None

    def rest(self) -> None:
        """No key has its turn; user code that uses a cell or timer nevertheless gets an error."""
        for place in self._both():
            place.rest(_NOBODYS)

    def check_turn_is_over(self) -> None:
        """Make sure that user code has not changed a cell while no key had its turn.

        Raises:
            RuntimeError: it has. The change would be lost, or become another key's.
        """
        for place in self._both():
            for cell in place.changed_cells():
                raise RuntimeError(cell.kind.out_of_turn())

    def close(self) -> None:
        """Tear down what was set up for state; nothing is forgotten."""
        for kind in self._kinds.values():
            kind.close()
        self._kinds = {}

    def _both(self) -> list[LargePlace | SmallPlace]:
        return [self.large] if self.small is None else [self.large, self.small]

    # --- what Beam asks -----------------------------------------------------------------------

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """The cell of ``state_spec`` in ``window``."""
        place = self.large
        if window is not place.window:
            place.enter(window, key)
        return place.cell(state_spec)

    def get_timer(self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any) -> Any:
        """What sets and clears timers of a family, for ``window``."""
        place = self.large
        if window is not place.window:
            place.enter(window, key)
        timer = place.timer(timer_spec)
        if isinstance(timer, ProcessingTimer):
            return timer.set_at(timestamp, pane)
        return timer.set_in(pane)

    def commit(self) -> None:
        """Nothing: rounds are ended by the slot."""

    def reset(self) -> None:
        """Nothing: state lasts longer than bundles."""


class _Nobodys:
    """The record of no key."""

    def __getattr__(self, name: str) -> NoReturn:
        where = "where no key has its turn, as in finish_bundle"
        message = f"state or a timer was used {where}. {ELSEWHERE}"
        raise RuntimeError(message)


_NOBODYS: Final[Any] = _Nobodys()
