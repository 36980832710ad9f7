"""Reading what is in the store and what is in memory as one sorted sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def merged(
    rows: Iterable[tuple[bytes, T]], held: Iterable[tuple[bytes, T | None]]
) -> Iterator[tuple[bytes, T]]:
    """Entries of two sorted sequences, sorted; of equal keys the held one counts.

    A held None removes the entry.
    """
    changes = iter(held)
    change = next(changes, None)
    for row in rows:
        while change is not None and change[0] < row[0]:
            if change[1] is not None:
                yield change[0], change[1]
            change = next(changes, None)
        if change is not None and change[0] == row[0]:
            continue
        yield row
    while change is not None:
        if change[1] is not None:
            yield change[0], change[1]
        change = next(changes, None)
