"""Which slot owns a key."""

from __future__ import annotations

from timers_state.keys import key_group

KEY_GROUPS = 1024


def slot_of(key: bytes, slots: int) -> int:
    """The slot, of ``slots``, whose range of key groups holds the encoded ``key``."""
    return key_group(key, KEY_GROUPS) * slots // KEY_GROUPS
