"""What tells a file apart: its content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True, slots=True)
class FileContent:
    """The content of a file.

    Attributes:
        digest: SHA-256, hexadecimal.
        size: in bytes.
    """

    digest: str
    size: int


def is_name(name: str) -> bool:
    """Whether a file of the folder is called so: by its digest, in full."""
    return _NAME.fullmatch(name) is not None
