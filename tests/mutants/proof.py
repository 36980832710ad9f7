"""Proves that the changed copy is what tests run, in their own process and in Spark's workers."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.mutants.pytest_run import run_tests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PACKAGE = "runner/sparkdrain/__init__.py"
_SPARK_TEST = (
    "tests/rounds/test_streaming_on_spark.py::test_an_error_of_a_user_ends_it_and_comes_first"
)
_LIMIT = 600.0
_MARK = "the mutated copy is imported"
_NOWHERE = f"\nraise ImportError({_MARK!r})\n"
_NOT_IN_WORKERS = f"""
import sys as _sys
if "pytest" not in _sys.modules:
    raise ImportError({_MARK!r})
"""


class NotProven(Exception):
    """Tests passed with a copy that cannot be imported: they run something else."""


def prove_tests_run_the_copy(base: Path, scratch: Path, files: Sequence[str]) -> None:
    """Break the import of the package everywhere, and see that no test runs because of it."""
    _prove(base, scratch, _NOWHERE, files)


def prove_workers_run_the_copy(base: Path, scratch: Path) -> None:
    """Break the import everywhere but in the process of pytest, and see a Spark job fail."""
    _prove(base, scratch, _NOT_IN_WORKERS, [_SPARK_TEST])


def _prove(base: Path, scratch: Path, broken: str, tests: Sequence[str]) -> None:
    tree = scratch / "proof"
    shutil.copytree(base, tree)
    try:
        with (tree / _PACKAGE).open("a", encoding="utf-8") as package:
            package.write(broken)
        run = run_tests(tree, tests, _LIMIT)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    if run.has_passed or _MARK not in run.output:
        message = f"{tests} did not fail as they must without the package:\n{run.output[-4000:]}"
        raise NotProven(message)
