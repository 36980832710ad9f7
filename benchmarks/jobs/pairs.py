"""The small pairs that are grouped. Plain Python: the hand-written job has no use for Beam."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VALUE_BYTES = 20
STRIDE = 7919  # a prime: neighbours in the input have different keys, far apart


def pair_of(keys: int) -> Callable[[int], tuple[str, bytes]]:
    """Maps i to its pair: an 8-character key, one of `keys`, and 20 bytes of value."""
    return lambda i: (key_text(i * STRIDE % keys), b"%020d" % i)


def key_text(key: int) -> str:
    """The key with this number."""
    return f"k{key:07d}"


def measure(group: tuple[str, Iterable[bytes]]) -> tuple[int, int, int]:
    """Values in the group, their bytes, and a sum that changes if a value strays to another key."""
    key, values = group
    count = size = 0
    for value in values:
        count += 1
        size += len(value)
    return count, size, zlib.crc32(key.encode()) * count
