"""``sparkdrain doctor``: a table of what the runner needs and whether it is there."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from sparkdrain import setup_check
from sparkdrain.errors import BadSetup
from sparkdrain.spark_needs import javas_for, pythons_for, spark_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Check = tuple[str, Callable[[], str]]


OK: Final = "[green]ok"
WARNING: Final = "[yellow]warning"
MISSING: Final = "[red]missing"


def doctor(_arguments: object = None, console: Console | None = None) -> int:
    """Print the table; 1 if something is missing (the row says what to do), else 0."""
    console = console or Console()
    table = Table("", "needed", "found, or what to do")
    failures = 0
    for name, state, detail in results(checks()):
        failures += state is MISSING
        table.add_row(state, name, detail)
    console.print(table)
    return 1 if failures else 0


def checks() -> list[Check]:
    """What is checked, in the order of the table."""
    spark = spark_version()
    found: list[Check] = [
        (str(javas_for(spark)), lambda: setup_check.check_java(os.environ)),
        (f"Python >= {setup_check.oldest_python()}", setup_check.check_python),
    ]
    pythons = pythons_for(spark)
    if pythons is not None:
        found.append((str(pythons), setup_check.check_python_for_spark))
    for needed in setup_check.requirements():
        name = f"{needed.name} {needed.specifier}"
        found.append((name, partial(setup_check.check_package, needed)))
    found.append(("temporary directory", setup_check.check_temporary_directory))
    return found


def results(checks: Iterable[Check]) -> Iterable[tuple[str, str, str]]:
    """Name; ``OK``, ``WARNING`` or ``MISSING``; and what was found or what to do."""
    for name, check in checks:
        try:
            yield name, OK, check()
        except setup_check.NotNamed as warning:
            yield name, WARNING, str(warning)
        except BadSetup as error:
            yield name, MISSING, str(error)
