"""Runs one slow proof, and writes down at which commit it passed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tests.proofs.checkout import Changed, commit_of
from tests.proofs.ledger import LEDGER, Pass, digest, write_down
from tests.proofs.slow_tests import ROOT

if TYPE_CHECKING:
    from tests.proofs.listed import Proof


class NotProven(Exception):
    """A proof did not pass, or nobody could tell at which commit."""


def prove(proof: Proof, root: Path = ROOT, ledger: Path = LEDGER) -> Pass:
    """Run one proof and write it down, unless it does so itself on a page of its own.

    Raises:
        NotProven: it failed, or there were changes on top of the commit.
    """
    commit = _commit(root)
    began = time.monotonic()
    passed, skipped = _make(proof, root) if proof.target else _test(proof, root)
    if _commit(root) != commit:
        msg = "another commit was checked out meanwhile; run it again"
        raise NotProven(msg)
    day = datetime.now(timezone.utc).date().isoformat()
    seconds = round(time.monotonic() - began)
    done = Pass(commit, day, seconds, passed, skipped, digest(proof, root))
    if not proof.page:
        write_down(proof.name, done, ledger)
    return done


def _commit(root: Path) -> str:
    try:
        return commit_of(root)
    except Changed as error:
        raise NotProven(str(error)) from error


def _make(proof: Proof, root: Path) -> tuple[int, int]:
    if subprocess.run(["make", *proof.target.split()], cwd=root, check=False).returncode:
        msg = f"make {proof.target} failed"
        raise NotProven(msg)
    return 0, 0


def _test(proof: Proof, root: Path) -> tuple[int, int]:
    with tempfile.TemporaryDirectory(prefix="proof-") as scratch:
        report = Path(scratch, "report.xml")
        command = [sys.executable, "-m", "pytest", "-m", "slow", *proof.paths]
        # A stack of every thread after a while is for runs that hang; these are slow.
        command += ["-o", "faulthandler_timeout=0", f"--junitxml={report}"]
        if subprocess.run(command, cwd=root, check=False).returncode:
            msg = "its tests failed, or there are none"
            raise NotProven(msg)
        cases = list(ET.parse(report).iter("testcase"))
    left_out = [case.find("skipped") for case in cases]
    skipped = sum(one is not None and one.get("type") != "pytest.xfail" for one in left_out)
    if skipped == len(cases):
        msg = "all of its tests were skipped"
        raise NotProven(msg)
    return len(cases) - skipped, skipped
