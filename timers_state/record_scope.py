"""From records to a scope: a key whose state has become more than a record can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from timers_state.cells import Value
from timers_state.cells.cell import CELL_BYTES
from timers_state.image import IMAGE_BYTES, Image
from timers_state.keys import Domain
from timers_state.record import size_of
from timers_state.scope import SCOPE_BYTES, KeyScope
from timers_state.small import SMALL_CELLS
from timers_state.timers import TIMER_BYTES, TIMERS_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timers_state.cells.cell import Cell, ValueImage
    from timers_state.holdings import Holdings
    from timers_state.image import TimersImage
    from timers_state.record import Content, Layout, Others, Record, TimerName
    from timers_state.timer_rows import Change, TimerIdent

_EXPIRY: Final[TimerIdent] = (b"", b"")


def scope_of(overlay: Holdings, state_id: int, records: list[Record], layout: Layout) -> KeyScope:
    """A scope at rest that has what was committed of a key, and is unwritten if that differs.

    Items that were committed are in the store.
    """
    stored = any(record.base is not None for record in records)
    scope = KeyScope(overlay, state_id, records[0].key, stored)
    image = _image(records, layout, stored=stored)
    scope.restore(image)
    scope.unwritten = bool(image.values or image.timers)
    cells = len(records) * len(layout.values)
    timers = len(records) * (len(layout.families) + 1)
    timers += sum(len(record.committed()[4]) for record in records)
    scope.leased = (
        SCOPE_BYTES
        + CELL_BYTES * cells
        + len(Domain) * TIMERS_BYTES
        + TIMER_BYTES * timers
        + sum(size_of(record.committed()) for record in records)
    )
    return scope


def change_scope(scope: KeyScope, record: Record, layout: Layout) -> None:
    """Makes the changes of the running round to a scope that has what was committed."""
    before, after = record.committed(), record.content()
    window = record.window
    for (kind, tag), old, new in zip(layout.values, before[0], after[0], strict=True):
        if old == new:
            continue
        _change_cell(scope, kind, tag, window, old, new)
    for family, was, time, was_with, payload in zip(
        layout.families, before[1], after[1], before[2], after[2], strict=True
    ):
        if (was, was_with) != (time, payload):
            if time is None:
                scope.timers(Domain.EVENT).clear(family, b"", window)
            else:
                scope.timers(Domain.EVENT).set(time, family, b"", window, payload)
    for name, time, payload in _other_changes(before[4], after[4]):
        domain, family, tag = name
        if time is None:
            scope.timers(domain).clear(family, tag, window)
        else:
            scope.timers(domain).set(time, family, tag, window, payload)
    if before[3] != after[3]:
        if after[3] is None:
            scope.timers(Domain.EXPIRY).clear(*_EXPIRY, window)
        else:
            scope.timers(Domain.EXPIRY).set(after[3], *_EXPIRY, window)


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


def _image(records: list[Record], layout: Layout, *, stored: bool) -> Image:
    values: list[ValueImage] = []
    timers: list[TimersImage] = []
    size = IMAGE_BYTES
    for record in records:
        base, content = record.base or layout.empty, record.committed()
        size += size_of(content)
        for (kind, tag), there, value in zip(layout.values, base[0], content[0], strict=True):
            if there != value:
                assert issubclass(kind, Value)
                values.append((kind, record.window, tag, value, there is not None))
        by_domain: dict[Domain, list[tuple[TimerIdent, Change]]] = {
            Domain.EVENT: _event_changes(record, base, content, layout),
            Domain.EXPIRY: _expiry_changes(record, base, content),
        }
        for (domain, *ident), time, payload in _other_changes(base[4], content[4]):
            family, tag = ident
            there = base[4][domain, family, tag][0] if time is None else None
            change = there if time is None else (time, record.window, family, tag, payload)
            by_domain.setdefault(domain, []).append(((family, tag), change))
        for domain, changes in by_domain.items():
            if changes:
                timers.append((domain, stored, record.window, tuple(changes)))
                size += TIMER_BYTES * len(changes)
    return Image(stored, None, values, timers, size)


def _other_changes(before: Others, after: Others) -> Iterator[tuple[TimerName, int | None, bytes]]:
    """Names, times and payloads of timers that differ; no time: the timer is not set anymore."""
    if before is after:
        return
    for name in {**before, **after}:
        time, payload = after.get(name, (None, b""))
        if (time, payload) != before.get(name, (None, b"")):
            yield name, time, payload


def _event_changes(
    record: Record, base: Content, content: Content, layout: Layout
) -> list[tuple[TimerIdent, Change]]:
    changes: list[tuple[TimerIdent, Change]] = []
    for family, there, time, there_with, payload in zip(
        layout.families, base[1], content[1], base[2], content[2], strict=True
    ):
        if (there, there_with) != (time, payload):
            change = there if time is None else (time, record.window, family, b"", payload)
            changes.append(((family, b""), change))
    return changes


def _expiry_changes(
    record: Record, base: Content, content: Content
) -> list[tuple[TimerIdent, Change]]:
    if base[3] == content[3]:
        return []
    time = content[3]
    return [(_EXPIRY, base[3] if time is None else (time, record.window, *_EXPIRY, b""))]
