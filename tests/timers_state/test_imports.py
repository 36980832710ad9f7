"""Modules import each other in one direction, and one of them says where a key is."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

from tests.support.product_modules import graph, modules

MOST_FLOORS = 8
"""Of folders of timers_state; a module beside them is one of its own."""


def test_no_module_imports_one_that_imports_it():
    """In the whole product, also in functions and where only types are checked."""
    names = list(TopologicalSorter(graph()).static_order())  # or CycleError, which names them
    assert {"sparkdrain.wire", "timers_state.keys"} <= set(names) == modules().keys()


def folder(module):
    """What is directly below the package: a folder, or a module beside the folders."""
    return ".".join(module.split(".")[:2])


def test_folders_stand_on_few_floors():
    names = [name for name in modules() if folder(name).startswith("timers_state")]
    below = {folder(name): set() for name in names}
    for name in names:
        below[folder(name)] |= {folder(each) for each in graph()[name]} - {folder(name)}
    floors = {}
    for name in TopologicalSorter(below).static_order():  # raises CycleError for a circle
        floors[name] = 1 + max((floors[each] for each in below[name]), default=0)
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
        for name, module in modules().items()
        if folder(name) == "timers_state.overlay"
        for node in ast.walk(module)
        if getattr(_looked_in(node), "attr", None) in places
    }
    assert asking == {"timers_state.overlay.residence"}


def test_harnesses_and_rounds_ask_the_overlay_where_a_key_is():
    """All but two, where a call for each element would cost too much."""
    places = {"scopes", "resting", "heads", "erased", "erased_states", "_absent"}
    asking = {
        (name, function.name)
        for name, module in modules().items()
        if name.startswith(("sparkdrain.harness", "sparkdrain.rounds", "sparkdrain.fnapi"))
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr in places
    }
    assert asking == {
        ("sparkdrain.harness.record_loop", "record_loop"),
        ("sparkdrain.harness.small_place", "begin"),
    }
