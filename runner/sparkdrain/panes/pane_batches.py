"""Panes of one window leave together, though key groups give theirs in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.grouping import PaneBatch


class PaneBatches:
    """Gathers pairs by what goes with them.

    A stage pays for each batch. A key group gives the panes of all its windows, one window after
    the other: without this, each batch would have the few keys of one group in one window.
    """

    def __init__(self) -> None:
        self._by_context: dict[int, PaneBatch] = {}
        self.size = 0
        """Bytes in memory."""

    def add(self, context: Any, pairs: list[Any], size: int) -> None:
        """Keep pairs.

        Args:
            context: what goes with them: one object for each pane of a window.
            pairs: keys and their values.
            size: their bytes in memory.
        """
        # By identity, which is cheap. The table keeps the object, so no other one has its number.
        _, gathered = self._by_context.setdefault(id(context), (context, []))
        gathered += pairs
        self.size += size

    def take_all(self) -> Iterator[PaneBatch]:
        """Take out the batches, those with the earliest timestamp first.

        The windows of a key stay in the order of their ends.
        """
        batches = sorted(self._by_context.values(), key=_timestamp)
        self._by_context = {}
        self.size = 0
        yield from batches


def _timestamp(batch: PaneBatch) -> Any:
    return batch[0].timestamp
