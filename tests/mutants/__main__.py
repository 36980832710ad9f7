"""Command line: `python -m tests.mutants [--jobs N] [--area AREA ...] ...`; see docs/mutants.md."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.ledger import End, known_ends, write_down
from tests.mutants.listed import ROOT, mutants
from tests.mutants.mutation_run import GOOD, MutationRun, Outcome, Verdict
from tests.mutants.proof import prove_tests_run_the_copy, prove_workers_run_the_copy
from tests.mutants.selection import Selection, changed, never_run
from tests.mutants.table import mutant_table
from tests.mutants.tree import copy_of_checkout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.listed import Mutant
    from tests.mutants.mutation_run import Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the mutants; 0 if each is killed or equivalent, else 1."""
    options = _options(arguments)
    selection = Selection(
        tuple(options.name), tuple(options.file), tuple(options.area), tuple(options.point)
    )
    chosen = selection.of(mutants())
    known = known_ends()
    if options.changed or options.never_run:
        chosen = (never_run if options.never_run else changed)(chosen, known)
    if not chosen:
        print("No mutant is selected.", file=sys.stderr)
        return 1
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}  {mutant.file}  {' '.join(mutant.tests) or mutant.equivalent}")
        return 0
    if options.record and not _is_clean():
        print(
            "--record is for a commit with nothing changed on top: commit first.", file=sys.stderr
        )
        return 1
    commit, began = _git("rev-parse", "--short=12", "HEAD"), time.monotonic()
    ends: dict[str, End] = {}
    killers = {name: end.how for name, end in known.items() if end.verdict == Verdict.KILLED}

    def tell(outcome: Outcome) -> None:
        how = "" if outcome.verdict is Verdict.EQUIVALENT else outcome.how
        line = f"{outcome.verdict:10} {outcome.seconds:5.0f} s  {outcome.mutant.name}  {how}"
        print(line.rstrip(), flush=True)
        end = End.of(outcome, commit, datetime.now(timezone.utc).date().isoformat())
        with writing:
            ends[outcome.mutant.name] = end
            if options.record:
                write_down(outcome.mutant.name, end)

    writing = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        scratch = Path(directory).resolve()
        base = copy_of_checkout(ROOT, scratch / "base")
        _prove_the_copy_is_run(base, scratch, chosen)
        for _, grouped in groupby(chosen, lambda mutant: mutant.area):
            own = list(grouped)
            run = MutationRun(base, scratch, options.jobs, killers)
            for output in run.without_mutants(own):
                print(f"Fails without a mutant:\n{output}")
            run.outcomes(own, tell)
    print(f"\n{mutant_table(chosen, ends)}\n")
    counted = Counter(end.verdict for end in ends.values())
    said = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    minutes = (time.monotonic() - began) / 60
    print(f"{len(ends)} mutants in {minutes:.0f} minutes: {said}")
    return 0 if set(counted) <= GOOD else 1


def _prove_the_copy_is_run(base: Path, scratch: Path, chosen: Sequence[Mutant]) -> None:
    files = sorted({test.partition("::")[0] for mutant in chosen for test in mutant.tests})
    if files:
        prove_tests_run_the_copy(base, scratch, files)
    if any("mark.spark" in (base / file).read_text(encoding="utf-8") for file in files):
        prove_workers_run_the_copy(base, scratch)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="test processes at a time")
    parser.add_argument("--name", nargs="+", default=[], help="names, with wildcards")
    parser.add_argument("--file", nargs="+", default=[], help="changed files, or parts of paths")
    parser.add_argument("--area", nargs="+", default=[], help="lists, without .toml")
    parser.add_argument("--point", nargs="+", type=int, default=[], help="of the drain contract")
    parser.add_argument(
        "--changed",
        action="store_true",
        help="not those that ended well and of which no file has changed since",
    )
    parser.add_argument("--never-run", action="store_true", help="those without a good end only")
    parser.add_argument("--list", action="store_true", help="print what is selected, run nothing")
    parser.add_argument("--record", action="store_true", help="write docs/mutants.json")
    return parser.parse_args(arguments)


def _is_clean() -> bool:
    own = {"docs/mutants.json", "docs/mutants.md"}
    return {line[2:].strip() for line in _git("status", "--porcelain").splitlines()} <= own


def _git(*command: str) -> str:
    done = subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted: what ran was ended, and no copy is left.", file=sys.stderr)
        # The end of a process by the signal itself ends `make`, too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
