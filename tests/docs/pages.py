"""The pages of the documentation, and what their links into the code promise."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
_PATH: Final = re.compile(r"`((?:[\w-]+/)+[\w.-]+\.(?:py|md|proto|toml))`")
_FOLDERS: Final = (
    "benchmarks",
    "docs",
    "examples",
    "integration",
    "proto",
    "runner",
    "tests",
    "timers_state",
)
_CODE_LINK: Final = re.compile(r"\[`([\w./]+)(?:\(\))?`\]\(([^)#\s]+\.py)\)")


def code_links(page: Path) -> list[tuple[str, Path]]:
    """Each link to a module whose text is a name of the code, or a path: text and target."""
    return links_in(page.read_text(encoding="utf-8"), page.parent)


def links_in(text: str, folder: Path) -> list[tuple[str, Path]]:
    """As ``code_links``, of a text in a folder."""
    return [(name, (folder / target).resolve()) for name, target in _CODE_LINK.findall(text)]


def named_files(text: str) -> list[str]:
    """Each span of code that is a path of a file with folders before its name."""
    return _PATH.findall(text)


@cache
def _files() -> tuple[str, ...]:
    return tuple(
        f"/{path.relative_to(ROOT).as_posix()}"
        for folder in _FOLDERS
        for path in (ROOT / folder).rglob("*.*")
    )


def is_there(path: str) -> bool:
    """Whether the project has a file with this path, or one that ends so."""
    return any(file.endswith(f"/{path}") for file in _files())


def is_right(text: str, target: Path) -> bool:
    """Whether a link keeps its promise.

    A text that is a path is the end of the target's path; a package may stand for its
    ``__init__.py``. Any other text is a name that the target defines: of a class or function, of a
    constant, or ``Class.member``.
    """
    if not target.is_file():
        return False
    package = target.parent if target.name == "__init__.py" else target
    ends = any(str(path).endswith(f"/{text.rstrip('/')}") for path in (target, package))
    return ends or text in _names(target)


@cache
def _names(path: Path) -> frozenset[str]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    names = set(_defined(module))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{name}" for name in _defined(node))
    return frozenset(names)


def _defined(scope: ast.Module | ast.ClassDef) -> list[str]:
    names = []
    for node in scope.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names
