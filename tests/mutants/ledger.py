"""How each mutant last ended, as ``docs/mutants.json`` keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.mutants.listed import ROOT, mutants

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mutants.listed import Mutant
    from tests.mutants.mutation_run import Outcome

LEDGER = ROOT / "docs" / "mutants.json"


@dataclass(frozen=True, slots=True)
class End:
    """What became of one mutant.

    Attributes:
        verdict: see ``Verdict``.
        how: the test that failed, or why nothing could be told.
        seconds: that its tests took.
        commit: that was broken, with nothing changed on top.
        day: in UTC, such as ``2026-11-22``.
        read: digest of what was run, see `digest`; empty if it is not known.
    """

    verdict: str
    how: str
    seconds: int
    commit: str
    day: str
    read: str

    @classmethod
    def of(cls, outcome: Outcome, commit: str = "", day: str = "") -> End:
        """What is kept of an outcome."""
        mutant, seconds = outcome.mutant, round(outcome.seconds)
        return cls(outcome.verdict, outcome.how, seconds, commit, day, digest(mutant))


def digest(mutant: Mutant, root: Path = ROOT) -> str:
    """Of a mutant, the file that it changes, and the files with its tests.

    If none of these has changed, a mutant that was killed need not be run again. That is a rule of
    thumb: what else the tests import may have changed.
    """
    files = [mutant.file, *sorted({test.partition("::")[0] for test in mutant.tests})]
    parts = [mutant.before, mutant.after, *mutant.tests]
    parts += [(root / file).read_text(encoding="utf-8") for file in files]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def known_ends(ledger: Path = LEDGER) -> dict[str, End]:
    """The last end of each mutant that was written down, by its name."""
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else "{}"
    return {name: End(**fields) for name, fields in json.loads(text).items()}


def write_down(name: str, end: End, ledger: Path = LEDGER) -> None:
    """Keep a mutant's end instead of the one before. Mutants that no list has any more go."""
    known = {**known_ends(ledger), name: end}
    fields = {each.name: asdict(known[each.name]) for each in mutants() if each.name in known}
    ledger.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
