"""How each list of mutants last ended, as ``docs/mutants.json`` keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tests.mutants.listed import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.mutants.mutation_run import Outcome

LEDGER = ROOT / "docs" / "mutants.json"


@dataclass(frozen=True, slots=True)
class End:
    """What became of one mutant.

    Attributes:
        file: that was changed.
        verdict: see ``Verdict``.
        how: the test that failed, or why nothing could be told.
        seconds: that its tests took.
    """

    file: str
    verdict: str
    how: str
    seconds: int


@dataclass(frozen=True, slots=True)
class ListRun:
    """A list of mutants was run as a whole.

    Attributes:
        commit: the commit that was broken, with nothing changed on top.
        day: in UTC, such as ``2026-11-22``.
        seconds: how long it took, with all mutants' tests once without a mutant.
        jobs: test processes at a time.
        mutants: ends, by name.
    """

    commit: str
    day: str
    seconds: int
    jobs: int
    mutants: dict[str, End]


def ends(outcomes: Iterable[Outcome]) -> dict[str, End]:
    """What is kept of outcomes."""
    return {
        each.mutant.name: End(each.mutant.file, each.verdict, each.how, round(each.seconds))
        for each in outcomes
    }


def list_runs(ledger: Path = LEDGER) -> dict[str, ListRun]:
    """The last run of each list that has been run, by the list's name."""
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else "{}"
    return {
        area: ListRun(
            **{**fields, "mutants": {name: End(**end) for name, end in fields["mutants"].items()}}
        )
        for area, fields in json.loads(text).items()
    }


def write_down(area: str, run: ListRun, ledger: Path = LEDGER) -> None:
    """Keep a list's run, instead of the one before."""
    known = {**list_runs(ledger), area: run}
    fields = {name: asdict(known[name]) for name in sorted(known)}
    ledger.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
