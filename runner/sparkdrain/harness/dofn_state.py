"""What a place asks of the state whose keys have their turns in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.cells import KeyPlace
    from timers_state import Overlay


class DofnState(Protocol):
    """State and timers of one stateful DoFn in a slot, as its places know it.

    Attributes:
        transform_id: the id of the transform with the DoFn.
        overlay, state_id, expiry_of: see ``StateTerms``.
        place: where the present turn is. A place sets it when it begins a turn.
    """

    transform_id: str
    overlay: Overlay
    state_id: int
    expiry_of: Callable[[Any], int] | None
    place: Any

    def make_cell(self, spec: Any, place: KeyPlace, number: int) -> Any:
        """A cell of a state, for the keys that have their turns in a place."""

    def encode_window(self, window: Any) -> bytes:
        """A window as the store knows it."""

    def decode_window(self, section: bytes) -> Any:
        """The inverse of ``encode_window``."""
