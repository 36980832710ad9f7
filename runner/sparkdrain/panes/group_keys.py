"""State for many keys in one scope: one scope per key group, so that it moves with its keys."""

from __future__ import annotations

from functools import cache
from itertools import count
from zlib import crc32

from timers_state import KEY_GROUPS, key_group

_SHIFT = 32 - 10  # as there are 2**10 key groups


@cache
def group_keys() -> tuple[bytes, ...]:
    """A key of each key group: the same in every process, for ever."""
    found: dict[int, bytes] = {}
    for number in count():
        key = number.to_bytes(4, "big")
        found.setdefault(key_group(key), key)
        if len(found) == KEY_GROUPS:
            return tuple(found[group] for group in range(KEY_GROUPS))
    raise AssertionError


def groups_of(keys: list[bytes]) -> list[int]:
    """``key_group`` for each of many keys."""
    # The same arithmetic without a call per key; a test holds them together.
    return [(crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) >> _SHIFT for key in keys]
