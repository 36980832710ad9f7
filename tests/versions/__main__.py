"""Command line: `python -m tests.versions [--pair NAME ...] [--check NAME ...] [--record]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from tests.proofs.checkout import Changed, commit_of
from tests.versions.checks import CHECKS
from tests.versions.environment import CACHE, ROOT, NoPython, build, environment_of
from tests.versions.pairs import OLDEST, PAIRS, Pair
from tests.versions.record import Row, table, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries each pair; 0 if no check failed, else 1."""
    options = _options(arguments)
    try:
        failures = _try_all(options)
    except Changed as error:
        print(f"--record: {error}", file=sys.stderr)
        return 1
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    return 1 if failures else 0


def _try_all(options: argparse.Namespace) -> list[str]:
    """What failed; prints the table.

    Raises:
        Changed: rows are to be written down, and it is not known for which commit.
    """
    commit = commit_of(ROOT) if options.record else _git("rev-parse", "HEAD")
    chosen = [pair for pair in PAIRS if not options.pair or pair.name in options.pair]
    if options.oldest:
        chosen = [_oldest_here()]
    wheel, _ = build(CACHE / "dist")
    rows, failures = [], []
    for pair in chosen:
        checks = options.check or list(CHECKS)
        row, failed = _tried(pair, wheel, checks, commit[:7], fresh=not options.keep)
        if options.record:
            if commit_of(ROOT) != commit:
                message = "another commit was checked out meanwhile; run it again"
                raise Changed(message)
            write([row], [pair.name for pair in PAIRS])
        rows.append(row)
        failures += failed
    print(table([row.cells() for row in rows]))
    return failures


def _tried(
    pair: Pair, wheel: Path, checks: Sequence[str], commit: str, *, fresh: bool
) -> tuple[Row, list[str]]:
    date = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    begun = time.monotonic()
    versions = (pair.python, pair.beam, pair.spark)
    seen: dict[str, str] = {}
    failed: list[str] = []
    try:
        extras = "flights" if "demo" in checks else ""
        tools = not {"conformance", "outside"}.isdisjoint(checks)
        made = environment_of(pair, wheel, extras=extras, tools=tools, fresh=fresh)
    except NoPython as error:
        return Row(pair.name, versions, {"demo": f"not run: {error}"}, commit, date), []
    except RuntimeError as error:
        return Row(pair.name, versions, {"demo": "no environment"}, commit, date), [str(error)]
    print(f"{pair.name}: environment, {time.monotonic() - begun:.0f} s", flush=True)
    for name in checks:
        begun = time.monotonic()
        try:
            seen[name] = CHECKS[name](made.python)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            seen[name] = "**fails**"
            failed.append(f"{pair.name}, {name}: {error}")
        told = f"{pair.name}: {name}, {time.monotonic() - begun:.0f} s: {seen[name]}"
        print(told, flush=True)
    return Row(pair.name, made.versions, seen, commit, date), failed


def _oldest_here() -> Pair:
    """The oldest pair, with this Python if the machine has no Python that is as old."""
    from tests.versions.environment import python_of  # noqa: PLC0415

    try:
        python_of(OLDEST.python)
    except NoPython:
        here = "{}.{}".format(*sys.version_info[:2])
        return Pair(here, OLDEST.beam, OLDEST.spark, OLDEST.lowest)
    return OLDEST


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    names = [pair.name for pair in PAIRS]
    add = parser.add_argument
    add("--pair", action="append", choices=names, help="only this one; repeatable")
    add("--check", action="append", choices=list(CHECKS), help="only this one; repeatable")
    add("--oldest", action="store_true", help="only the oldest pair that this machine can run")
    add("--keep", action="store_true", help="go on with environments of an earlier run")
    add("--record", action="store_true", help="write what was seen into docs/versions.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
