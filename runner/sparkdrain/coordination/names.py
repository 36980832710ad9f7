"""Names of records that belong to a group or a job: a prefix that no other group's names have."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote, unquote

_LONGEST: Final = 150
"""Bytes of a group's or a member's name as it is; longer ones end with a digest."""


def key_of(group: str, name: str) -> str:
    """The key of a record of a group."""
    return prefix_of(group) + _part(name)


def prefix_of(group: str) -> str:
    """What the keys of a group's records begin with."""
    return _part(group) + "/"


def name_of(key: str) -> str:
    """The last part of a key that ``key_of`` has made, of a name that is not too long."""
    return unquote(key.rpartition("/")[2])


def _part(name: str) -> str:
    quoted = quote(name, safe="")
    if len(quoted) <= _LONGEST:
        return quoted
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{quoted[: _LONGEST - len(digest) - 1]}%{digest}"
