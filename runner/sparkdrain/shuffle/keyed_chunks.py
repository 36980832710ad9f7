"""Takes apart what a ``KeyedWriter`` has put together: the elements of a key."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

if TYPE_CHECKING:
    from sparkdrain.shuffle.coding import ElementCoding

_ONE: Final = struct.pack(">i", 1)
NO_CHUNK: Final = b"\xff\xff\xff\xff"
"""How no chunk begins."""


class KeyedChunks:
    """Knows how chunks with one element begin, of which only the value is decoded then.

    Chunks that follow one another often have one element each, of the same time, windows and pane.
    They begin with the same bytes then: who knows these needs to decode no more than the rest.

    Attributes:
        decode_value: ``decode_value(rest)``: the value of a chunk, without the bytes before it.
    """

    def __init__(self, coding: ElementCoding) -> None:
        self.decode_value = coding.value.decode_nested
        self._encode_metadata = coding.metadata.encode
        self._last: Any = None

    def prefix(self, chunk: bytes, element: Any) -> bytes:
        """How chunks begin whose only element has what the only one of ``chunk`` has.

        Returns:
            Nothing, if that is not worth while: the one before had another time; or if there is
            more than one window, or a pane of its own.
        """
        last, self._last = self._last, element
        if (
            last is None
            or last.timestamp_micros != element.timestamp_micros
            or len(element.windows) != 1
            or element.pane_info is not PANE_INFO_UNKNOWN
        ):
            return b""
        prefix = _ONE + self._encode_metadata(element.with_value(b""))
        return prefix if chunk.startswith(prefix) else b""
