"""Modules of Beam's tests; which there are depends on the Beam that is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def suites_of(names: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, type]]:
    """Name and class of each suite, by module.

    A module is left out if the installed Beam has neither it nor what it tests. A module that is
    missing although Beam has what it tests is an error: it was renamed, and would not be run.

    Raises:
        ModuleNotFoundError: see above.
    """
    for module, suites in names.items():
        if not (_is_there(module) or _is_there(module.removesuffix("_test"))):
            continue
        loaded = importlib.import_module(module)
        yield from ((name, getattr(loaded, name)) for name in suites)


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
