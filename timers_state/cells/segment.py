"""A list of strings as one row's value: how many, how long each, then their bytes.

Encoding is two passes at C speed; a segment is small (``SEGMENT_BYTES``), so lists are read in
bounded memory, however long they are. A string larger than that has a segment of its own.
"""

from __future__ import annotations

import sys
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from timers_state.errors import MalformedRow
from timers_state.keys import segment_suffix

if TYPE_CHECKING:
    from timers_state.store.store import Batch

SEGMENT_BYTES: Final = 64 * 1024
_ONE: Final = (1).to_bytes(4, "little")
_ITEM_BYTES: Final = 16
"""Counted on top of each string, so that a segment of empty strings is bounded too."""


def encode_segment(items: list[bytes]) -> bytes:
    """The value that holds ``items``; a string of 4 GiB or more raises OverflowError."""
    if len(items) == 1:
        item = items[0]
        return _ONE + len(item).to_bytes(4, "little") + item
    lengths = array("I", [len(items), *map(len, items)])
    if sys.byteorder == "big":
        lengths.byteswap()
    return lengths.tobytes() + b"".join(items)


def decode_segment(value: bytes) -> list[bytes]:
    """The list in a value of ``encode_segment``."""
    count = int.from_bytes(value[:4], "little")
    at = 4 + 4 * count
    lengths = array("I", value[4:at] if len(value) >= at else b"")
    if sys.byteorder == "big":
        lengths.byteswap()
    if len(lengths) != count or at + sum(lengths) != len(value):
        message = f"a segment of {len(value)} bytes does not hold the {count} items it names"
        raise MalformedRow(message)
    items = []
    for length in lengths:
        items.append(value[at : at + length])
        at += length
    return items


def segments_of(items: list[bytes]) -> list[list[bytes]]:
    """Cuts a list into lists of about ``SEGMENT_BYTES``."""
    if sum(map(len, items)) + _ITEM_BYTES * len(items) <= SEGMENT_BYTES:
        return [items] if items else []
    starts, size = [0], 0
    for position, item in enumerate(items):
        size += len(item) + _ITEM_BYTES
        if size > SEGMENT_BYTES and position > starts[-1]:
            starts.append(position)
            size = len(item) + _ITEM_BYTES
    return [items[start:end] for start, end in pairwise([*starts, len(items)])]


def put_segments(batch: Batch, prefix: bytes, items: list[bytes]) -> None:
    """Adds ``items`` to ``batch``, as the last rows that start with ``prefix``."""
    for index, segment in enumerate(segments_of(items)):
        batch.put(prefix + segment_suffix(batch.sequence, index), encode_segment(segment))
