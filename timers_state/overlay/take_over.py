"""From records to a scope: a key whose state has become more than a record can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from timers_state.cells.value import Value
from timers_state.keys import EVENT, EXPIRY
from timers_state.small.kinds import SMALL_CELLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.cells.cell import Cell
    from timers_state.keys import TimerIdent, TimerName
    from timers_state.large.scope import KeyScope
    from timers_state.small.record import Layout, Others, Record

_EXPIRY: Final[TimerIdent] = (b"", b"")


def change_scope(scope: KeyScope, record: Record, layout: Layout) -> None:
    """Makes the changes of the running round to a scope; the store has what was committed."""
    values, times, payloads, expiry, others = record.committed()
    window = record.window
    for (kind, tag), old, new in zip(layout.values, values, record.values, strict=True):
        if old != new:
            _change_cell(scope, kind, tag, window, old, new)
    for family, was, time, was_with, payload in zip(
        layout.families, times, record.times, payloads, record.payloads, strict=True
    ):
        if (was, was_with) != (time, payload):
            if time is None:
                scope.timers(EVENT).clear(family, b"", window)
            else:
                scope.timers(EVENT).set(time, family, b"", window, payload)
    for name, time, payload in _other_changes(others, record.others):
        domain, family, tag = name
        if time is None:
            scope.timers(domain).clear(family, tag, window)
        else:
            scope.timers(domain).set(time, family, tag, window, payload)
    if expiry != record.expiry:
        if record.expiry is None:
            scope.timers(EXPIRY).clear(*_EXPIRY, window)
        else:
            scope.timers(EXPIRY).set(record.expiry, *_EXPIRY, window)


def _change_cell(
    scope: KeyScope, kind: type[Cell], tag: bytes, window: bytes, old: Any, new: Any
) -> None:
    cell, small = scope.cell(kind, tag, window), SMALL_CELLS.get(kind)
    if small is not None:
        small.tell(cell, old, new)
    elif new is None:
        cell.clear()
    else:
        assert isinstance(cell, Value)
        cell.set(new)


def _other_changes(before: Others, after: Others) -> Iterator[tuple[TimerName, int | None, bytes]]:
    """Names, times and payloads of timers that differ; no time: the timer is not set anymore."""
    if before is after:
        return
    for name in {**before, **after}:
        time, payload = after.get(name, (None, b""))
        if (time, payload) != before.get(name, (None, b"")):
            yield name, time, payload
