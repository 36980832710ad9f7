"""Modules of timers_state import each other in one direction, for types too."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "timers_state").rglob("*.py")
}
MOST_FLOORS = 21
"""This number only shrinks."""


def imported(path):
    """Modules of the package that a module imports, also where only types are checked."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in MODULES else node.module
                if found in MODULES:
                    yield found


def test_no_module_imports_one_that_imports_it():
    graph = {name: {*imported(path)} - {name} for name, path in MODULES.items()}
    floors = {}
    for name in TopologicalSorter(graph).static_order():  # raises CycleError for a circle
        floors[name] = 1 + max((floors[below] for below in graph[name]), default=0)
    assert len(floors) == len(MODULES)
    assert max(floors.values()) <= MOST_FLOORS
