"""The modules of the product, parsed, and which of them each imports."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PACKAGES = {"timers_state": ROOT / "timers_state", "sparkdrain": ROOT / "runner/sparkdrain"}
# Its modules are imported on first use, by users.
_FACE = "sparkdrain"


@cache
def modules():
    """By dotted name, the parsed modules of both packages."""
    found = {}
    for package, folder in _PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def graph():
    """By module, those of the product that it imports, also in functions and for types only."""
    return {name: {*_imported(module)} - {name} for name, module in modules().items()} | {
        _FACE: set()
    }


def _imported(module):
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in modules() else node.module
                if found in modules():
                    yield found
