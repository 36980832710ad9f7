"""``sparkdrain doctor``: a table of what the runner needs and whether it is there."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from sparkdrain import setup_check
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Check = tuple[str, Callable[[], str]]

_SECONDS: Final = 60


def doctor(console: Console | None = None) -> int:
    """Print the table; 0 if all is well, 1 if something is missing (the row says what to do)."""
    console = console or Console()
    table = Table("", "needed", "found, or what to do")
    failures = 0
    for name, ok, detail in results(checks()):
        failures += not ok
        table.add_row("[green]ok" if ok else "[red]missing", name, detail)
    console.print(table)
    return 1 if failures else 0


def checks() -> list[Check]:
    """What is checked, in the order of the table."""
    found: list[Check] = [
        (
            str(setup_check.javas_for_spark()),
            lambda: setup_check.check_java(os.environ, _printed),
        ),
        (f"Python >= {setup_check.oldest_python()}", setup_check.check_python),
    ]
    for needed in setup_check.requirements():
        name = f"{needed.name} {needed.specifier}"
        found.append((name, partial(setup_check.check_package, needed)))
    found.append(("temporary directory", setup_check.check_temporary_directory))
    return found


def results(checks: Iterable[Check]) -> Iterable[tuple[str, bool, str]]:
    """Name, whether it is well, and what was found or what to do."""
    for name, check in checks:
        try:
            yield name, True, check()
        except BadSetup as error:
            yield name, False, str(error)


def _printed(command: Sequence[str]) -> str:
    done = subprocess.run(  # noqa: S603 (a fixed command: java -version)
        command, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return done.stderr + done.stdout
