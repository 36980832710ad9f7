"""The place of a key's turn, for cells and timers, and what a place asks of the state of a DoFn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.harness.drain_timers import TimerBound
    from timers_state import Layout, Overlay
    from timers_state.keys import TimerName

DueTimer = tuple[Any, int, Any, bytes, bytes, Any]
"""A timer that fires: what ``expire_window`` of its place takes (a record, or a window), then the
time in microseconds, the window, the family, the dynamic tag and the pane."""


class KeyPlace(Protocol):
    """Where a key has its turn, in one window at a time. Cells and timers work on this window.

    Attributes:
        record: what the key has: ``values`` by number, and ``window``. A ``Record``, or a
            ``LargeKey``.
        records: changes ``record``.
        expiry_of: see ``StateTerms``.
        expires: whether windows end.
        bound: limits the timers that callbacks set while a job is drained.
        is_outgrown: whether the key is small and will have no records after this turn.
        cells: the cell of each state, by name.
        timers: what sets timers, by name, as far as it was asked for; see ``timer_of``.
    """

    record: Any
    records: Any
    expiry_of: Callable[[Any], int] | None
    expires: bool
    bound: TimerBound
    key: Any
    window: Any
    is_outgrown: bool
    cells: dict[str, Any]
    timers: dict[str, Any]

    def where(self) -> str:
        """Key and window in words."""
        return f"key {self.key!r}, window {self.window}"

    def changed_cells(self) -> list[Any]:
        """Cells with something that neither a record nor a scope has yet."""
        return [cell for cell in self.cells.values() if cell.part.is_changed]

    def keep(self) -> None:
        """Something is about to be kept, so the window has to expire."""

    def items(self, number: int) -> Any:
        """The items of a state if keys are small; they follow the turns. None: keys are large."""

    def open(self, number: int) -> Any:
        """The items of a state of a large key. They are those of this turn and window."""

    def number(self, family: bytes) -> int:
        """Where ``record`` has the event timer of a family that has no dynamic tag."""

    def has_one_timer(self) -> bool:
        """Whether ``record`` is a ``Record`` with a single event timer without a dynamic tag."""
        return False

    def set_timer(self, name: TimerName, time: int, payload: bytes) -> None:
        """Set a timer that follows processing time, or has a dynamic tag."""

    def clear_timer(self, name: TimerName) -> None:
        """Take such a timer back."""


class DofnState(Protocol):
    """State and timers of one stateful DoFn in a slot, as its places know it.

    Attributes:
        overlay, state_id, expiry_of: see ``StateTerms``.
        states: what the DoFn keeps, sorted by name.
        layout: what its records have.
        known: which windows of large keys expire, as far as places know.
        place: where the present turn is. A place sets it when it begins a turn.
    """

    overlay: Overlay
    state_id: int
    expiry_of: Callable[[Any], int] | None
    states: Sequence[Any]
    layout: Layout
    known: set[tuple[bytes, bytes]]
    place: Any

    def make_cell(self, spec: Any, place: KeyPlace, number: int) -> Any:
        """A cell of a state, for the keys that have their turns in a place."""

    def encode_window(self, window: Any) -> bytes:
        """A window as the store knows it."""

    def decode_window(self, section: bytes) -> Any:
        """The inverse of ``encode_window``."""
