"""Which tests of a file the default run leaves out: those that are marked slow."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MARK: Final = "pytest.mark.slow"


@cache
def slow_tests(path: str) -> frozenset[str]:
    """The names of tests that are slow with all of their parameters.

    Args:
        path: the file, from the root of the repository.
    """
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    all_are = any(map(_marks_all, module.body))
    return frozenset(
        test.name
        for scope in (module, *(node for node in module.body if isinstance(node, ast.ClassDef)))
        for test in scope.body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        if all_are or _is_marked(scope) or _is_marked(test)
    )


def has_slow_tests(path: Path) -> bool:
    """Whether a file of tests, or of fixtures, marks anything slow."""
    return MARK in path.read_text(encoding="utf-8")


def is_slow(test: str) -> bool:
    """Whether the default run leaves a test out; a name without a path is a test of Beam's."""
    path, colons, name = test.partition("::")
    return bool(colons) and name in slow_tests(path)


def _marks_all(statement: ast.stmt) -> bool:
    """Whether it is ``pytestmark = ...`` with the mark."""
    return (
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "pytestmark"
        and any(ast.unparse(node) == MARK for node in ast.walk(statement.value))
    )


def _is_marked(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> bool:
    decorators = [] if isinstance(node, ast.Module) else node.decorator_list
    return any(ast.unparse(decorator) == MARK for decorator in decorators)
