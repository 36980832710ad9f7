"""A large key: a scope behind the calls that records have for a small key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from timers_state.keys import EVENT

if TYPE_CHECKING:
    from timers_state.cells.cell import Cell
    from timers_state.keys import TimerName
    from timers_state.large.scope import KeyScope


class ScopeOpener(Protocol):
    """Finds scopes; see ``Overlay``."""

    def scope(self, state_id: int, key: bytes) -> KeyScope:
        """The scope of a key."""


class LargeKey:
    """The key of a state that has its turn, in one of its windows.

    What changes goes to the key's scope at once. The scope is opened by the first call that needs
    it. ``values``, ``put_value`` and calls for timers are those of ``Record`` and ``Records``; the
    record that they are given is this object.

    Attributes:
        key: encoded.
        window: encoded.
        values: this object: ``values[number]`` is the bytes of a single value, or None.
    """

    def __init__(self, overlay: ScopeOpener, state_id: int) -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._scope: KeyScope | None = None
        self._states: list[tuple[type[Cell], bytes]] = []
        self._families: list[bytes] = []
        self.key = b""
        self.window = b""
        self.values = self

    def begin(self, key: bytes) -> None:
        """What follows belongs to this key."""
        self.key = key
        self._scope = None

    @property
    def is_open(self) -> bool:
        """Whether this turn has asked for the scope."""
        return self._scope is not None

    def scope(self) -> KeyScope:
        """The key's scope."""
        scope = self._scope
        if scope is None:
            scope = self._scope = self._overlay.scope(self._state_id, self.key)
        return scope

    def add_state(self, kind: type[Cell], tag: bytes) -> int:
        """The number of a state from now on."""
        self._states.append((kind, tag))
        return len(self._states) - 1

    def number(self, family: bytes) -> int:
        """The number of a family's event timer that has no dynamic tag."""
        if family not in self._families:
            self._families.append(family)
        return self._families.index(family)

    def cell(self, number: int) -> Any:
        """The scope's cell of a state."""
        kind, tag = self._states[number]
        return self.scope().cell(kind, tag, self.window)

    def __getitem__(self, number: int) -> bytes | None:
        value: bytes | None = self.cell(number).get()
        return value

    def put_value(self, record: LargeKey, number: int, value: bytes | None) -> None:
        """Sets or clears a single value."""
        cell = record.cell(number)
        if value is None:
            cell.clear()
        else:
            cell.set(value)

    def set_timer(self, record: LargeKey, number: int, time: int, payload: bytes = b"") -> None:
        """Sets or moves an event timer without a dynamic tag."""
        record.set_other(record, (EVENT, self._families[number], b""), time, payload)

    def clear_timer(self, record: LargeKey, number: int) -> None:
        """Makes sure that such a timer does not fire."""
        record.clear_other(record, (EVENT, self._families[number], b""))

    def set_other(self, record: LargeKey, name: TimerName, time: int, payload: bytes = b"") -> None:
        """Sets or moves a timer, of any domain and tag."""
        domain, family, tag = name
        record.scope().timers(domain).set(time, family, tag, record.window, payload)

    def clear_other(self, record: LargeKey, name: TimerName) -> None:
        """Makes sure that a timer does not fire."""
        domain, family, tag = name
        record.scope().timers(domain).clear(family, tag, record.window)
