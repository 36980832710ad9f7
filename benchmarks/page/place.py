"""Where the tables stand in the page: between two comments that name them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put(page: Path, name: str, text: str) -> None:
    """Replaces what stands in the page under this name.

    Raises:
        ValueError: the page has no place of this name.
    """
    before, start, rest = page.read_text(encoding="utf-8").partition(_start(name))
    _, end, after = rest.partition(_end(name))
    if not end:
        message = f"{page} lacks the place {_start(name).strip()!r} ... {_end(name).strip()!r}"
        raise ValueError(message)
    part = page.with_suffix(".part")
    part.write_text(f"{before}{start}\n{text.strip()}\n{end}{after}", encoding="utf-8")
    os.replace(part, page)


def _start(name: str) -> str:
    return f"<!-- {name}: measured by python -m benchmarks.page -->\n"


def _end(name: str) -> str:
    return f"\n<!-- end of {name} -->"
