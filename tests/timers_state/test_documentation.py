"""What docs/state.md shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "state.md"


def test_the_first_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(example.group(1), {})
    assert capsys.readouterr().out == "1000000 b'expiry' b'comes back'\n"
