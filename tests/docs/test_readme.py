"""The README shows a program of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_an_example_word_by_word():
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")
    shown, _, _ = rest.partition("```\n")
    _, _, program = (ROOT / "examples/ticks.py").read_text(encoding="utf-8").partition("\n\n")
    assert shown == program
