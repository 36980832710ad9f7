"""Slow proofs are all listed, and what is written down of them is so."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.proofs.checkout import commits_of
from tests.proofs.ledger import Pass, digest, passes
from tests.proofs.listed import PROOFS, Proof, proof_of
from tests.proofs.prove import NotProven, prove
from tests.proofs.slow_tests import ROOT, files_with_slow_tests, is_slow, slow_tests

if TYPE_CHECKING:
    from pathlib import Path

FILES = [
    path
    for path in files_with_slow_tests(("integration", "tests"))
    if not path.startswith("tests/proofs/")
]


def git(root: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *own, *arguments], cwd=root, check=False, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("path", FILES)
def test_slow_tests_of_a_file_belong_to_one_proof(path):
    assert proof_of(path)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_a_proof_has_something_to_run(proof):
    assert bool(proof.target) != bool(proof.paths)
    if proof.target:
        target, *variables = proof.target.split()
        assert all(variable.startswith("ARGS=") for variable in variables)
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in proof.paths:
        assert any(file == path or file.startswith(f"{path}/") for file in FILES), path


def test_commits_that_are_written_down_are_in_the_history():
    assert passes().keys() <= {proof.name for proof in PROOFS}
    history = commits_of(ROOT)
    if not history:
        pytest.skip("no history here")
    strange = {name: done.commit for name, done in passes().items() if done.commit not in history}
    assert not strange, "these commits are not part of the history"


def test_pytest_leaves_out_what_capabilities_call_slow():
    """Asked of pytest itself, for the files of real services."""
    shown = (ROOT / "docs" / "capability.md").read_text(encoding="utf-8")
    rests_on = set(re.findall(r"`(integration/\w+\.py::\w+)`", shown))
    assert rests_on
    files = sorted({test.partition("::")[0] for test in rests_on})
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*collect, *files], cwd=ROOT, check=False, capture_output=True, text=True)
    by_default = set(re.findall(r"^(integration/\w+\.py::\w+)", done.stdout, re.MULTILINE))
    assert by_default, done.stdout + done.stderr
    assert {test for test in rests_on if is_slow(test)} == rests_on - by_default
    for test in rests_on:
        assert (f"`{test}` (slow proof: " in shown) == is_slow(test)


SOURCE = """
import pytest
{module}
@pytest.mark.slow
def test_marked(): pass
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_marked_in_part(n): pass
def test_not_marked(): pass
@pytest.mark.slow
class Suite:
    def test_in_a_class(self): pass
"""


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("", {"test_marked", "test_in_a_class"}),
        (
            "pytestmark = [pytest.mark.spark, pytest.mark.slow]",
            {"test_marked", "test_marked_in_part", "test_not_marked", "test_in_a_class"},
        ),
    ],
    ids=["some", "all"],
)
def test_a_test_is_slow_if_all_of_it_is(tmp_path, module, slow):
    path = tmp_path / "test_it.py"
    path.write_text(SOURCE.format(module=module))
    assert slow_tests(str(path)) == slow


@pytest.fixture
def repository(tmp_path):
    """A repository with a slow test that passes, one that fails, and one that is skipped."""
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    for name, body in (("good", "pass"), ("bad", "assert False"), ("away", "pytest.skip('no')")):
        head = "import pytest\n@pytest.mark.slow\ndef test_it():"
        (root / f"test_{name}.py").write_text(f"{head} {body}\n")
    (root / ".gitignore").write_text("__pycache__\n.pytest_cache\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return root


def test_a_proof_that_passes_is_written_down_with_its_commit(repository):
    ledger = repository / "docs" / "proofs.json"
    proof = Proof("good", "it", ("test_good.py",))
    done = prove(proof, repository, ledger)
    assert passes(ledger) == {"good": done}
    commit, tests = git(repository, "rev-parse", "HEAD")[:12], digest(proof, repository)
    assert done == Pass(commit, done.day, done.seconds, 1, 0, tests)
    # What is written down is no change that matters.
    git(repository, "add", "--intent-to-add", "docs/proofs.json")
    assert prove(proof, repository, ledger).commit == done.commit


@pytest.mark.parametrize(
    ("name", "why"), [("bad", "its tests failed"), ("away", "all of its tests were skipped")]
)
def test_a_proof_that_does_not_pass_is_not_written_down(repository, name, why):
    ledger = repository / "docs" / "proofs.json"
    with pytest.raises(NotProven, match=why):
        prove(Proof(name, "it", (f"test_{name}.py",)), repository, ledger)
    assert not ledger.exists()


def test_a_pass_was_of_other_tests_when_a_file_of_them_has_changed_or_has_come(repository):
    whole = Proof("whole", "it", ("test_good.py", "more"))
    digests = [digest(whole, repository), digest(whole, repository)]
    (repository / "more").mkdir()
    (repository / "more" / "helpers.py").write_text("")
    digests.append(digest(whole, repository))
    assert len(set(digests)) == 1
    slow = "import pytest\npytestmark = pytest.mark.slow\n"
    (repository / "more" / "test_more.py").write_text(
        "import pytest\npytestmark = pytest.mark.slow\n"
    )
    digests.append(digest(whole, repository))
    (repository / "test_good.py").write_text(slow)
    digests.append(digest(whole, repository))
    assert len(set(digests)) == 3
    assert digest(Proof("make", "it", target="search"), repository) == ""


def test_what_a_target_of_make_records_is_no_change_that_matters(repository):
    (repository / "Makefile").write_text(
        "ARGS ?=\ntry:\n\ttest '$(ARGS)' = --record\n\techo row > docs/versions.md\n"
    )
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "make")
    git(repository, "config", "status.showUntrackedFiles", "all")
    ledger = repository / "docs" / "proofs.json"
    done = prove(Proof("pairs", "it", target="try ARGS=--record"), repository, ledger)
    assert passes(ledger) == {"pairs": done}
    with pytest.raises(NotProven, match="make try failed"):
        prove(Proof("pairs", "it", target="try"), repository, ledger)


def test_a_proof_with_changes_on_top_of_the_commit_is_not_written_down(repository):
    ledger = repository / "docs" / "proofs.json"
    (repository / "more.py").write_text("")
    with pytest.raises(NotProven, match=r"changes on top of the commit, such as more\.py"):
        prove(Proof("good", "it", ("test_good.py",)), repository, ledger)
    assert not ledger.exists()
