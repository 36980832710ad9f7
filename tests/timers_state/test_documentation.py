"""What docs/state.md shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path

from timers_state import Domain, Overlay, RoundStore

PAGE = Path(__file__).parents[2] / "docs" / "state.md"


def test_the_example_of_rounds_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().partition("\n## Rounds\n")[2]
    names = {"Path": Path, "Domain": Domain, "Overlay": Overlay, "RoundStore": RoundStore}
    first, prefetch, firing = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:3]
    exec(first, names)
    overlay = names["overlay"]
    assert overlay.scope(7, b"key").value(b"count").get() == b"1"
    overlay.scope(7, b"key").timers(Domain.EVENT).set(5, b"t")
    exec(prefetch, names)
    assert names["keys"] == []
    exec(firing, {**names, "now": 5})
    assert overlay.first_time(7, Domain.EVENT) is None
    overlay.close()


def test_the_first_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(example.group(1), {})
    assert capsys.readouterr().out == "1000000 b'expiry' b'comes back'\n"
