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
MOST_FLOORS = 8
"""Of folders; a module beside them is one of its own."""


def imported(path):
    """Modules of the package that a module imports, also where only types are checked."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in MODULES else node.module
                if found in MODULES:
                    yield found


GRAPH = {name: {*imported(path)} - {name} for name, path in MODULES.items()}


def folder(module):
    """What is directly below the package: a folder, or a module beside the folders."""
    return ".".join(module.split(".")[:2])


def test_no_module_imports_one_that_imports_it():
    assert len(list(TopologicalSorter(GRAPH).static_order())) == len(MODULES)  # or CycleError


def test_folders_stand_on_few_floors():
    graph = {folder(name): set() for name in MODULES}
    for name, below in GRAPH.items():
        graph[folder(name)] |= {folder(each) for each in below} - {folder(name)}
    floors = {}
    for name in TopologicalSorter(graph).static_order():  # raises CycleError for a circle
        floors[name] = 1 + max((floors[below] for below in graph[name]), default=0)
    assert {"timers_state.store", "timers_state.overlay"} <= floors.keys()
    assert max(floors.values()) <= MOST_FLOORS


def _looked_in(node: ast.AST) -> ast.AST | None:
    """What an expression looks for something in: ``x in it``, ``it.get(x)``, ``it[x]``."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[it]):
            return it
        case ast.Call(func=ast.Attribute(value=it, attr="get")):
            return it
        case ast.Subscript(value=it, ctx=ast.Load()):
            return it
    return None


def test_only_residence_says_where_a_key_is():
    """No other module of the overlay looks for a key in one of these."""
    places = {"scopes", "resting", "heads", "erased", "erased_states", "taken", "stored", "_absent"}
    asking = {
        name
        for name, path in MODULES.items()
        if folder(name) == "timers_state.overlay"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if getattr(_looked_in(node), "attr", None) in places
    }
    assert asking == {"timers_state.overlay.residence"}
