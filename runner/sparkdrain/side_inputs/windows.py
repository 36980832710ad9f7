"""What a slot holds of a side input in streaming: its content by window, in the slot's state.

Per window there is a scope of the overlay with the encoded values in chunks (each a list, as a
list coder writes it): in a bag, or in a multimap if the side input is looked up by key.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, Any

from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from timers_state import KeyScope, Overlay

_COUNT = struct.Struct(">i")
_VALUES, _FIRED, _EXPIRY = b"v", b"f", b"e"
_REMEMBERED = 10_000


def chunk_of(encoded: list[bytes]) -> bytes:
    """A chunk of some values, each in nested encoding."""
    return _COUNT.pack(len(encoded)) + b"".join(encoded)


def count_of(chunk: bytes) -> int:
    """How many values are in a chunk."""
    count: int = _COUNT.unpack_from(chunk)[0]
    return count


class WindowedContent:
    """The content of a side input, window by window; windows are given in their encoding.

    Args:
        state_id: nothing else uses it there.
        multimap: whether values have keys.
    """

    is_for_all_threads = False

    def __init__(self, overlay: Overlay, state_id: int, *, multimap: bool) -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._multimap = multimap
        self._dated: set[bytes] = set()
        self.changed = False
        """Set by every change; a caller that remembers content resets it."""

    def _scope(self, window: bytes) -> KeyScope:
        return self._overlay.scope(self._state_id, window)

    def append(self, window: bytes, key: bytes, chunk: bytes) -> None:
        """Add values to a window, under a key that is empty if values have none."""
        scope = self._scope(window)
        if self._multimap:
            scope.multimap(_VALUES).put(key, chunk)
        else:
            scope.bag(_VALUES).append(chunk)
        self.changed = True

    def replace(self, window: bytes, groups: Iterable[tuple[bytes, bytes]]) -> None:
        """Make ``groups`` (key, chunk) all of a window's content, which has fired then."""
        scope = self._scope(window)
        (scope.multimap if self._multimap else scope.bag)(_VALUES).clear()
        scope.value(_FIRED).set(b"")
        self.changed = True
        for key, chunk in groups:
            self.append(window, key, chunk)

    def has_fired(self, window: bytes) -> bool:
        """Whether content was ever put in its place by ``replace``."""
        return self._scope(window).value(_FIRED).get() is not None

    def values(
        self, section: bytes, key: bytes, decode: Callable[[bytes], list[Any]]
    ) -> Iterator[Any]:
        """The values of a window and key, one chunk in memory at a time; see ``SideFile``."""
        scope = self._scope(section)
        segments = (
            scope.multimap(_VALUES).segments(key)
            if self._multimap
            else scope.bag(_VALUES).segments()
        )
        for chunks in segments:
            for chunk in chunks:
                yield from decode(chunk)

    def keys(self, section: bytes) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Each key of a window, with its chunks; see ``SideFile``."""
        cell = self._scope(section).multimap(_VALUES)
        keys = cell.keys()
        for key in keys:
            yield key, chain.from_iterable(cell.segments(key))

    def date(self, window: bytes, time: int) -> None:
        """Have ``forget`` drop a window once it is told ``time`` or later."""
        if window in self._dated:
            return
        if len(self._dated) >= _REMEMBERED:
            self._dated = set()
        self._dated.add(window)
        self._scope(window).timers(Domain.EXPIRY).set(time, _EXPIRY)

    def forget(self, up_to: int) -> None:
        """Drop the windows whose time has come."""
        overlay, state_id = self._overlay, self._state_id
        while (window := overlay.next_due(state_id, Domain.EXPIRY, up_to)) is not None:
            overlay.scope(state_id, window).forget()
            self._dated.discard(window)
            self.changed = True
