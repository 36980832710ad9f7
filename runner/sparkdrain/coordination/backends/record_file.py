"""How a record of the file backend lies on disk: its file's name, its bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final
from urllib.parse import quote

from sparkdrain.coordination.metadata import Versioned

ENDING: Final = ".record"

_MAGIC: Final = b"sparkdrain-metadata 1 "
_LONGEST_SHOWN: Final = 120
_BEFORE_VERSIONS: Final = {"key", "size", "sha256"}


class DamagedFile(ValueError):
    """The bytes of a file are not those of a record; says what is wrong with them."""


def file_name(key: str) -> str:
    """The name of a key's file: its beginning for people, its digest to tell it from others."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{quote(key, safe='')[:_LONGEST_SHOWN]}-{digest[:32]}{ENDING}"


def may_begin(name: str, prefix: str) -> bool:
    """Whether the key of a file with that name may begin so; if not, the file need not be read."""
    return name.startswith(quote(prefix, safe="")[:_LONGEST_SHOWN])


def encode(key: str, value: bytes, version: str) -> bytes:
    """A line that says what follows, then the value as it is."""
    fields = {"key": key, "size": len(value), "sha256": _digest(key, value), "version": version}
    head = json.dumps({**fields, "head": _head_digest(fields)})
    return _MAGIC + head.encode() + b"\n" + value


def decode(data: bytes) -> tuple[str, Versioned]:
    """Key and record. The version of a file that has none is the digest of the record.

    Releases before versions wrote such files, and read files that have one.

    Raises:
        DamagedFile: a byte is missing, is too many or has changed.
    """
    line, newline, value = data.partition(b"\n")
    if not newline or not line.startswith(_MAGIC):
        message = f"it does not begin with {_MAGIC.decode().strip()!r}"
        raise DamagedFile(message)
    try:
        head = json.loads(line[len(_MAGIC) :])
        key, size, digest = head["key"], head["size"], head["sha256"]
        if len(value) != size:
            message = f"its value has {len(value)} bytes instead of {size}"
            raise DamagedFile(message)
        if _digest(key, value) != digest or not _is_whole(head):
            message = "its checksum is wrong"
            raise DamagedFile(message)
    except DamagedFile:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "its first line is damaged"
        raise DamagedFile(message) from error
    return key, Versioned(value, str(head.get("version", digest)))


def _is_whole(head: dict[str, Any]) -> bool:
    fields = {name: value for name, value in head.items() if name != "head"}
    if set(fields) == _BEFORE_VERSIONS:
        return "head" not in head
    return head.get("head") == _head_digest(fields)


def _head_digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _digest(key: str, value: bytes) -> str:
    return hashlib.sha256(key.encode() + b"\n" + value).hexdigest()
