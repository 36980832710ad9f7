"""The library is a leaf: it can be used where nothing else of the project is installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import timers_state

BACKPORT = "typing_extensions"
"""What newer Pythons have in `typing`: `override` since 3.12."""

ALLOWED = {"rocksdict", "timers_state", BACKPORT} | sys.stdlib_module_names


def test_only_rocksdict_and_the_standard_library_are_imported():
    root = Path(timers_state.__file__).parent
    imported = set()
    files = list(root.rglob("*.py"))
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                imported.add(node.module.split(".")[0])
    assert len(files) > 20
    assert "rocksdict" in imported
    assert imported <= ALLOWED
