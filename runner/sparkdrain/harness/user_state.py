"""State and timers of the key that a stage is working on.

A bounded stage sees its keys one after the other, so the state of one key at a time is alive.
It is kept as Python objects; a key that outgrows its share of memory continues in the store
(RocksDB on the executor's local disk). When the last timer of a key has fired, its state is
forgotten, which is free if it never went to the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.transforms import userstate

from sparkdrain.errors import Unsupported
from sparkdrain.harness.cells import CELLS
from sparkdrain.harness.timers import KeyTimer, TimerTable

if TYPE_CHECKING:
    from timers_state import KeyScope, Overlay

# Cells of one key beyond these are accounted for; the first few do not pay for it.
_FREE_CELLS = 64
_CELL_BYTES = 1_000
# What Python needs for an item beside its encoded size, and for the item itself per encoded byte.
_ITEM_BYTES = 100
_EXPANSION = 3


class KeyedStateContext(userstate.UserStateContext):
    """What one stateful DoFn sees of the state and timers of the present key.

    Args:
        transform_id: of the DoFn.
        window_coder: of its input.
        overlay: its own; nobody else's rows are in there.
    """

    def __init__(self, transform_id: str, window_coder: Any, overlay: Overlay) -> None:
        self._transform_id = transform_id
        self._window_impl = window_coder.get_impl()
        self._overlay = overlay
        self._cells: dict[tuple[Any, Any], Any] = {}
        self._key = b""
        self._scope: KeyScope | None = None
        self._spilled = False
        self.timers = TimerTable(self.scope, self._window_impl)

    def begin_key(self, key: bytes) -> None:
        """What follows belongs to the key with this encoding."""
        self._key = key

    def key_at_work(self) -> bytes | None:
        """The encoding of the key that has its turn; for another thread."""
        return self._key or None

    def scope(self) -> KeyScope:
        """The present key's place in the store."""
        if self._scope is None:
            self._scope = self._overlay.scope(0, self._key)
            self._scope.before_spill = self._save
        return self._scope

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """The cell of ``state_spec`` in ``window``, made at first use."""
        address = (state_spec, window)
        cell = self._cells.get(address)
        if cell is None:
            cell = self._cells[address] = self._create(state_spec, window)
        return cell

    def _create(self, spec: Any, window: Any) -> Any:
        for kind in type(spec).__mro__:
            if kind in CELLS:
                break
        else:
            msg = f"{self._transform_id!r}: state {spec.name!r} is of a kind not known here"
            raise Unsupported(msg)
        cell = CELLS[kind](spec, _CellPlace(self, spec, window))
        if len(self._cells) >= _FREE_CELLS:
            self.scope().charge(_CELL_BYTES)
        if self._spilled:
            cell.open()
        return cell

    def encode_window(self, window: Any) -> bytes:
        """A window as the store knows it."""
        return self._window_impl.encode(window)

    def _save(self) -> None:
        """Move all cells to the store; called by it when memory is short.

        From then on cells of this key work on the store, and the store accounts for them.
        """
        cells, self._cells = self._cells, {}
        if not self._spilled:
            self._spilled = True
            for cell in cells.values():
                cell.save()

    def get_timer(
        self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any
    ) -> KeyTimer:
        """A handle to set and clear timers of a family, for ``window``."""
        return KeyTimer(self.timers, timer_spec, key, window, timestamp, pane)

    def forget_key(self) -> None:
        """All state of the present key goes; must be called between keys."""
        for cell in self._cells.values():
            cell.close()
        self._cells.clear()
        self.timers.forget()
        if self._scope is not None:
            self._scope.forget()
            self._scope = None
            self._spilled = False

    def rest(self) -> None:
        """Nothing: a key has its turn until it is forgotten."""

    def check_turn_is_over(self) -> None:
        """Nothing: whatever was changed is forgotten with its key."""

    def close(self) -> None:
        """The bundle is torn down."""
        self.forget_key()

    def commit(self) -> None:
        """Nothing outlives a bounded bundle."""

    def reset(self) -> None:
        """Nothing: Beam calls this between bundles, and a key may last longer than one."""


class _CellPlace:
    """A cell's place: see ``cells.Place``."""

    __slots__ = ("_context", "_spec", "_window")

    def __init__(self, context: KeyedStateContext, spec: Any, window: Any) -> None:
        self._context = context
        self._spec = spec
        self._window = window

    @property
    def tag(self) -> bytes:
        return str(self._spec.name).encode()

    @property
    def window(self) -> bytes:
        return self._context.encode_window(self._window)

    def scope(self) -> KeyScope:
        return self._context.scope()

    def grow(self, items: int, sample: bytes) -> None:
        self._context.scope().charge(items * (_ITEM_BYTES + _EXPANSION * len(sample)))
