"""State for many keys in one scope: one scope per key group, so that it moves with its keys."""

from __future__ import annotations

from functools import cache
from itertools import count
from zlib import crc32

from timers_state import key_group


@cache
def group_keys(groups: int) -> tuple[bytes, ...]:
    """A key of each key group: the same in every process, for ever."""
    found: dict[int, bytes] = {}
    for number in count():
        key = number.to_bytes(4, "big")
        found.setdefault(key_group(key, groups), key)
        if len(found) == groups:
            return tuple(found[group] for group in range(groups))
    raise AssertionError


def groups_of(keys: list[bytes], groups: int) -> list[int]:
    """``key_group`` for each of many keys."""
    # The same arithmetic without a call per key; a test holds them together.
    return [(crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) * groups >> 32 for key in keys]
