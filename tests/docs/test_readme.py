"""The README shows a program of the repository."""

from __future__ import annotations

import html
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_an_example_word_by_word():
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")
    shown, _, _ = rest.partition("```\n")
    _, _, program = (ROOT / "examples/ticks.py").read_text(encoding="utf-8").partition("\n\n")
    assert shown == program


def test_the_readme_shows_lines_of_the_picture_in_their_order():
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("were\n\n```\n")
    shown = rest.partition("```\n")[0].splitlines()
    picture = (ROOT / "docs/drain.svg").read_text(encoding="utf-8")
    printed = [html.unescape(line) for line in re.findall(r">([^<]+)</text>", picture)]
    assert [line for line in printed if line in shown] == shown
    assert len(shown) == 4
