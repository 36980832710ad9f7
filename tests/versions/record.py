"""Keeps the table of docs/versions.md: a row for each pair, with what was seen and when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.versions.checks import CHECKS
from tests.versions.environment import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "versions.md"
_BEGIN: Final = "<!-- versions: written by make test-versions -->"
_END: Final = "<!-- end of versions -->"
_HEAD: Final = ("pair", "Python", "Beam", "Spark", *CHECKS, "commit", "date")


@dataclass(frozen=True, slots=True)
class Row:
    """A pair, and what its checks said.

    Attributes:
        pair: its name.
        versions: of Python, Beam and Spark, as installed.
        seen: what each check said.
        commit: of the checkout that was tried.
        date: of the run.
    """

    pair: str
    versions: tuple[str, str, str]
    seen: Mapping[str, str]
    commit: str
    date: str

    def cells(self) -> list[str]:
        """Its cells in the table."""
        seen = [self.seen.get(name, "not run") for name in CHECKS]
        return [self.pair, *self.versions, *seen, self.commit, self.date]


def table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as Markdown."""
    lines = [_HEAD, ["---"] * len(_HEAD), *rows]
    return "\n".join(f"| {' | '.join(_shown(cell) for cell in line)} |" for line in lines)


def write(rows: Sequence[Row], names: Sequence[str], page: Path = PAGE) -> None:
    """Put rows into the page; a pair that was not run now keeps the row that it has.

    Args:
        rows: of the pairs that were run.
        names: of all pairs, in their order; rows of others go.
        page: the file.
    """
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    old, _, after = rest.partition(_END)
    cells = {line[0]: line for line in _cells(old)} | {row.pair: row.cells() for row in rows}
    kept = [cells[name] for name in names if name in cells]
    page.write_text(f"{before}{_BEGIN}\n{table(kept)}\n{_END}{after}", encoding="utf-8")


def _cells(lines: str) -> list[list[str]]:
    found = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines.strip().splitlines()[2:]]
    return [line for line in found if len(line) == len(_HEAD)]


def _shown(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
