"""The consumer side of grouping: chunks are put together by key, in bounded memory.

They are collected in a table. What passes its budget is dealt out on disk by the hash of section
and key, unsorted, and each part is put together alone. A part that is larger than memory, as it is
if a key is, goes through sorted runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.group_parts import PARTS, GroupParts
from sparkdrain.shuffle.group_table import GroupTable
from sparkdrain.shuffle.sort_merging import SortMerger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class GroupMerger:
    """Collects grouped blocks, then hands out groups; memory stays near the budget.

    Args:
        budget_bytes: estimate of Python's memory at which the table is spilled.
        directory: where spilled data goes; asked for at the first spill.

    Attributes:
        spilled_bytes: the estimate of what went to disk.
    """

    def __init__(self, budget_bytes: int, directory: Callable[[], Path]) -> None:
        self._budget = budget_bytes
        self._directory = directory
        self._table = GroupTable()
        self._parts: GroupParts | None = None
        # Large groups are read from these until the end.
        self._mergers: list[SortMerger] = []
        self.spilled_bytes = 0

    def add(self, payload: bytes) -> None:
        """Take in the payload of a block."""
        if self._parts is not None:
            self._parts.add(payload)
            if self._parts.size > self._budget:
                self._write(self._parts)
            return
        self._table.add(payload)
        if self._table.size > self._budget:
            # All that follows is dealt out at once: it will be put together part by part.
            self._parts = GroupParts(self._directory())
            self._parts.add_table(self._table)
            self._table = GroupTable()
            self._write(self._parts)

    def _write(self, parts: GroupParts) -> None:
        self.spilled_bytes += parts.size
        parts.write()

    def groups(self) -> Iterator[tuple[bytes, bytes, list[Any]]]:
        """Section, key and chunks of every group, each once, in any order.

        A chunk that is not ``bytes`` is an ``Extent``, which can be loaded until this is closed.
        """
        if self._parts is None:
            yield from self._table.groups()
            return
        # The rest too, so that its memory is free.
        self._write(self._parts)
        for part in range(PARTS):
            merger = SortMerger(self._budget, self._directory)
            self._mergers.append(merger)
            for payload in self._parts.read(part):
                merger.add(payload)
            yield from merger.groups()

    def table(self) -> dict[bytes, Any] | None:
        """The chunk or chunks of each key; None if some are on disk, or in other sections.

        Of no use after the next call of another method.
        """
        if self._parts is not None or len(self._table.sections) != 1:
            return None
        (table,) = self._table.sections.values()
        return table

    def close(self) -> None:
        """Give disk space back; groups handed out before can no longer be read."""
        if self._parts is not None:
            self._parts.close()
            self._parts = None
        for merger in self._mergers:
            merger.close()
        self._mergers = []
