"""How a record of the file backend lies on disk: its file's name, its bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Final
from urllib.parse import quote

ENDING: Final = ".record"

_MAGIC: Final = b"sparkdrain-metadata 1 "
_LONGEST_SHOWN: Final = 120


class DamagedFile(ValueError):
    """The bytes of a file are not those of a record; says what is wrong with them."""


def file_name(key: str) -> str:
    """The name of a key's file: its beginning for people, its digest to tell it from others."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{quote(key, safe='')[:_LONGEST_SHOWN]}-{digest[:32]}{ENDING}"


def encode(key: str, value: bytes) -> bytes:
    """A line that says what follows, then the value as it is."""
    head = json.dumps({"key": key, "size": len(value), "sha256": _digest(key, value)})
    return _MAGIC + head.encode() + b"\n" + value


def decode(data: bytes) -> tuple[str, bytes]:
    """Key and value.

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
        if _digest(key, value) != digest:
            message = "its checksum is wrong"
            raise DamagedFile(message)
    except DamagedFile:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "its first line is damaged"
        raise DamagedFile(message) from error
    return key, value


def _digest(key: str, value: bytes) -> str:
    return hashlib.sha256(key.encode() + b"\n" + value).hexdigest()
