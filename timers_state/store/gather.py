"""Makes the store of a new slot from those of old ones, when the ranges of key groups change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING

from timers_state.errors import Unmovable
from timers_state.keys import (
    Family,
    group_of,
    group_prefix,
    prefix_end,
    state_of,
    state_prefix,
)
from timers_state.store.rocks import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence
    from pathlib import Path

    from timers_state.store.rocks import RocksMemory
    from timers_state.store.store import Store

_FAMILIES = (Family.CELLS, Family.TIMES, Family.TAGS)


class Spread(Enum):
    """How a state is spread over slots."""

    BY_KEY = auto()
    """Every slot has the keys of its key groups."""
    EVERYWHERE = auto()
    """Every slot has all of it, the same."""
    APART = auto()
    """Every slot has its own, whatever the keys: not taken, since only the caller can move it."""


@dataclass(frozen=True, slots=True)
class GatherSource:
    """A store that an old slot had.

    Attributes:
        store: its store; it is only read.
        groups: the key groups that it had, a range without steps.
        gives: the states that are everywhere which are taken from here.
    """

    store: Store
    groups: range
    gives: Container[int] = ()


def gather(
    directory: Path,
    sources: Sequence[GatherSource],
    groups: range,
    spread: Callable[[int], Spread],
    memory: RocksMemory | None = None,
) -> None:
    """Makes a store in ``directory``, absent or empty: what a slot with ``groups`` is to have.

    What is spread by key is moved exactly once if the groups of all old slots together, and of all
    new ones, are all there are. Takes time in proportion to the rows that are moved and to all
    timers of the sources.

    Args:
        sources: the old slots that have some of ``groups``, or give what is everywhere.
        groups: the key groups of the new slot, a range without steps.
        spread: how a state is spread; what it raises ends this.
        memory: what the new store may hold in memory.

    Raises:
        Unmovable: a state that is spread by key has keys that its slot did not have.
        ValueError: two sources have the same key group.
        StateError: a store cannot be read or written.
    """
    _check_disjoint(sources)
    sequence = max((source.store.sequence for source in sources), default=0)
    store = open_store(directory, memory)
    try:
        if sequence:
            store.fill(_rows(sources, groups, spread), sequence)
    except BaseException:
        store.abandon()
        raise
    store.close()


def _check_disjoint(sources: Sequence[GatherSource]) -> None:
    ranges = sorted(
        (source.groups.start, source.groups.stop) for source in sources if source.groups
    )
    for (_, stop), (start, _) in pairwise(ranges):
        if start < stop:
            message = f"two sources have key group {start}"
            raise ValueError(message)


def _rows(
    sources: Sequence[GatherSource], groups: range, spread: Callable[[int], Spread]
) -> Iterator[tuple[bytes, bytes]]:
    """Everything that goes into the new store, almost in order."""
    ordered = sorted(sources, key=lambda source: source.groups.start)
    states = sorted({state for source in ordered for state in state_ids(source.store)})
    kinds = {state: spread(state) for state in states}
    for family in _FAMILIES:
        for state, kind in kinds.items():
            for source in ordered:
                if kind is Spread.BY_KEY:
                    yield from _by_key(source, family, state, groups)
                elif kind is Spread.EVERYWHERE and state in source.gives:
                    yield from _all(source.store, family, state)


def state_ids(store: Store) -> list[int]:
    """The states that a store has rows of; one look for each."""
    found = set()
    for family in _FAMILIES:
        lower, end = bytes((family,)), prefix_end(bytes((family,)))
        while (row := next(iter(store.iterate_rows(lower, end)), None)) is not None:
            found.add(state_of(row))
            lower = prefix_end(state_prefix(family, state_of(row)))
    return sorted(found)


def _all(store: Store, family: Family, state: int) -> Iterator[tuple[bytes, bytes]]:
    prefix = state_prefix(family, state)
    return store.iterate(prefix, prefix_end(prefix))


def _by_key(
    source: GatherSource, family: Family, state: int, groups: range
) -> Iterator[tuple[bytes, bytes]]:
    wanted = range(max(source.groups.start, groups.start), min(source.groups.stop, groups.stop))
    if family is Family.TIMES:  # times come before groups
        for row, value in _all(source.store, family, state):
            if group_of(row) in wanted:
                yield row, value
        return
    _check_no_others(source, family, state)
    if wanted:
        lower = group_prefix(family, state, wanted.start)
        yield from source.store.iterate(lower, group_prefix(family, state, wanted.stop))


def _check_no_others(source: GatherSource, family: Family, state: int) -> None:
    """Every timer has a row in the index by tag, so times need no look of their own."""
    prefix = state_prefix(family, state)
    first = group_prefix(family, state, source.groups.start)
    after = group_prefix(family, state, source.groups.stop)
    for lower, upper in ((prefix, first), (after, prefix_end(prefix))):
        row = next(iter(source.store.iterate_rows(lower, upper)), None)
        if row is not None:
            message = (
                f"state {state} has rows of key group {group_of(row)} in a slot that has the "
                f"groups {source.groups.start} to {source.groups.stop - 1}: it is not spread by key"
            )
            raise Unmovable(message)
