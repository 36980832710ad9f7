"""A mutation run: each mutant in a copy of its own, against the tests that it names."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from tests.mutants.pytest_run import run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.mutants.listed import Mutant
    from tests.mutants.pytest_run import PytestRun

T, R = TypeVar("T"), TypeVar("R")
_LIMIT = 600.0
# A run with a mutant may take this many seconds, and this many times what its tests take without.
_GRACE, _TIMES = 90.0, 5.0


class Verdict(str, Enum):
    """What became of a mutant."""

    __str__ = str.__str__  # StrEnum, which Python 3.10 does not have
    __format__ = str.__format__

    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    STALE = "stale"
    """The text to be changed does not occur exactly once."""
    STILLBORN = "stillborn"
    """No test could even begin, so that none has noticed anything."""
    UNTRIED = "untried"
    """A test that the mutant names fails without it."""


GOOD = {Verdict.KILLED, Verdict.EQUIVALENT}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant and its end: the verdict, what tells of it, and the seconds that it took."""

    mutant: Mutant
    verdict: Verdict
    how: str
    seconds: float


class MutationRun:
    """Runs mutants, several at a time.

    Args:
        base: a copy of the tree that nothing changes.
        scratch: where copies for mutants go.
        jobs: how many test processes run at a time.
        killers: the test that killed a mutant last, by the mutant's name. It is run first; if it
            notices nothing any more, or is gone, all tests of the mutant decide as ever.
    """

    def __init__(
        self, base: Path, scratch: Path, jobs: int, killers: Mapping[str, str] | None = None
    ) -> None:
        self._base = base
        self._scratch = scratch
        self._jobs = jobs
        self._killers = killers or {}
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._stop = threading.Event()

    def without_mutants(self, mutants: Iterable[Mutant]) -> list[str]:
        """Run all tests that mutants name, each once; what pytest says where they fail."""
        files: dict[str, set[str]] = defaultdict(set)
        for mutant in mutants:
            for test in mutant.tests:
                files[_file(test)].add(test)

        def run(tests: set[str]) -> PytestRun:
            return run_tests(self._base, sorted(tests), _LIMIT, self._stop)

        runs = dict(zip(files, self._of_each(run, files.values()), strict=True))
        self._seconds = {file: run.seconds for file, run in runs.items()}
        self._failed = {
            file for file, run in runs.items() if not (run.has_passed and run.has_begun)
        }
        return [runs[file].output or f"{file} hung" for file in sorted(self._failed)]

    def outcomes(self, mutants: Sequence[Mutant], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Run mutants; ``without_mutants`` was called with them, and tells how long they may take.

        Args:
            mutants: to run, in order.
            tell: hears of each outcome as it is known.
        """

        def run(mutant: Mutant) -> Outcome:
            outcome = self._outcome(mutant)
            tell(outcome)
            return outcome

        return self._of_each(run, mutants)

    def _of_each(self, run: Callable[[T], R], things: Iterable[T]) -> list[R]:
        """Run several at a time. Ctrl-C ends those that run, and cancels the others."""
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(run, thing) for thing in things]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _outcome(self, mutant: Mutant) -> Outcome:
        found = mutant.found(self._base)
        if found != 1:
            return Outcome(mutant, Verdict.STALE, f"its text occurs {found} times", 0.0)
        if mutant.equivalent:
            return Outcome(mutant, Verdict.EQUIVALENT, mutant.equivalent, 0.0)
        broken = sorted({_file(test) for test in mutant.tests} & self._failed)
        if broken:
            return Outcome(mutant, Verdict.UNTRIED, f"{broken[0]} fails without it", 0.0)
        tree = self._scratch / mutant.name
        shutil.copytree(self._base, tree)
        try:
            (tree / mutant.file).write_text(mutant.text(self._base), encoding="utf-8")
            run = self._run(tree, mutant)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
        if run.code is None:
            return Outcome(mutant, Verdict.KILLED, "its tests hang", run.seconds)
        if run.has_passed:
            return Outcome(mutant, Verdict.SURVIVED, "", run.seconds)
        if not run.has_begun:
            return Outcome(mutant, Verdict.STILLBORN, run.output[-2000:], run.seconds)
        return Outcome(mutant, Verdict.KILLED, run.failed, run.seconds)

    def _run(self, tree: Path, mutant: Mutant) -> PytestRun:
        """Run a mutant's tests in its tree, the one that killed it last before the others."""
        limit, begun = self._limit(mutant), 0.0
        killer = self._killers.get(mutant.name, "")
        if any(
            killer == test or killer.startswith((f"{test}::", f"{test}[")) for test in mutant.tests
        ):
            first = run_tests(tree, [killer], limit, self._stop)
            if first.has_begun and not first.has_passed:
                return first
            begun = first.seconds
        run = run_tests(tree, mutant.tests, limit, self._stop)
        return replace(run, seconds=begun + run.seconds)

    def _limit(self, mutant: Mutant) -> float:
        files = {_file(test) for test in mutant.tests}
        return min(_LIMIT, _GRACE + _TIMES * sum(self._seconds[file] for file in files))


def _file(test: str) -> str:
    return test.partition("::")[0]
