"""What comes in the round in which its window ends, if nothing of the window is in state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.panes.arrivals import Groups

# What Python needs for a key and a chunk beside their bytes.
_OVERHEAD = 140


class Passing:
    """Keys and chunks by window and key group, for a part of a round, in memory.

    Args:
        memory_bytes: how much is kept here, at most.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._most = memory_bytes
        self._size = 0
        # By the time when it fires, and the encoded window.
        self._windows: dict[tuple[int, bytes], dict[bytes, Groups]] = {}

    def put(self, fires: int, section: bytes, group: bytes, groups: Groups) -> bool:
        """Keep what came for a key group of a window; False if there is no room for it."""
        size = sum(map(len, groups[1])) + _OVERHEAD * len(groups[1])
        if self._size + size > self._most:
            return False
        self._size += size
        table = self._windows.setdefault((fires, section), {})
        known = table.get(group)
        if known is None:
            table[group] = groups
        else:
            for kept, more in zip(known, groups, strict=True):
                kept.extend(more)
        return True

    def times(self) -> list[int]:
        """When windows fire of which there is something, the first one first."""
        return sorted({fires for fires, _ in self._windows})

    def take(self, up_to: int) -> Iterator[tuple[bytes, bytes, Groups]]:
        """Take out, one by one, what fires by then: encoded window, key group, what came for it."""
        for window in sorted(self._windows):
            if window[0] > up_to:
                return
            table = self._windows[window]
            for group in sorted(table):
                yield window[1], group, table.pop(group)
            del self._windows[window]
        self.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self._windows = {}
        self._size = 0
