"""Golden files: what a plan looks like, compared as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[1] / "golden" / "graph"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file in tests/golden/graph; with --update-golden, writes it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text("".join(f"{line}\n" for line in text.splitlines()), encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text.splitlines() == expected.splitlines(), "if it is meant: --update-golden"

    return compare
