"""When each slow proof last passed, as ``docs/proofs.json`` keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.proofs.slow_tests import ROOT, files_with_slow_tests

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs.listed import Proof

LEDGER = ROOT / "docs" / "proofs.json"


@dataclass(frozen=True, slots=True)
class Pass:
    """A proof has passed.

    Attributes:
        commit: the commit at which it did, with nothing changed on top.
        day: in UTC, such as ``2026-11-22``.
        seconds: how long it took.
        passed: tests that passed; 0 for a proof that is no test.
        skipped: tests that said that they cannot run on that machine.
        tests: digest of the files with its tests, see `digest`; empty if it is not known.
    """

    commit: str
    day: str
    seconds: int
    passed: int
    skipped: int
    tests: str = ""


def digest(proof: Proof, root: Path = ROOT) -> str:
    """Of the files that have a proof's slow tests; empty for a proof that is a target of make.

    A pass with another digest is one of other tests, or of fewer.
    """
    files = files_with_slow_tests(proof.paths, root)
    parts = [part for file in files for part in (file, (root / file).read_text(encoding="utf-8"))]
    return sha256("\0".join(parts).encode()).hexdigest()[:16] if files else ""


def passes(ledger: Path = LEDGER) -> dict[str, Pass]:
    """The last pass of each proof that has one, by name."""
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else "{}"
    return {name: Pass(**fields) for name, fields in json.loads(text).items()}


def write_down(name: str, passed: Pass, ledger: Path = LEDGER) -> None:
    """Keep a pass, instead of the one before."""
    known = {**passes(ledger), name: passed}
    fields = {proof: asdict(known[proof]) for proof in sorted(known)}
    ledger.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
