"""Takes apart what a ``KeyedWriter`` has put together: the elements of a key."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.shuffle.coding import ElementCoding

_ONE: Final = struct.pack(">i", 1)
NO_CHUNK: Final = b"\xff\xff\xff\xff"
"""How no chunk begins."""
Start = tuple[bytes, Any]
"""How a chunk with one element begins, and an element with its time, window and pane."""


class KeyedChunks:
    """Knows how chunks with one element begin, of which only the value is decoded then.

    A chunk of one element is its time, windows and pane, and then its value. Elements share the
    first with many others, so that is decoded once for all chunks that begin with the same bytes.

    Args:
        is_late: whether an element, with one window, is to be dropped.

    Attributes:
        decode_value: ``decode_value(rest)``: the value of a chunk, without the bytes before it.
    """

    def __init__(self, coding: ElementCoding, is_late: Callable[[Any], bool]) -> None:
        self.decode_value = coding.value.decode_nested
        self._decode_metadata = coding.metadata.decode
        self._is_late = is_late

    def start(self, chunk: bytes) -> Start | None:
        """How a chunk begins; None if it has several elements or windows, or is late."""
        if not chunk.startswith(_ONE):
            return None
        # Whatever follows the metadata counts as the value, which is bytes for this coder.
        element = self._decode_metadata(chunk[len(_ONE) :])
        if len(element.windows) != 1 or self._is_late(element):
            return None
        return chunk[: len(chunk) - len(element.value)], element
