"""The test that killed a mutant last is run first; it survives only if all its tests pass."""

from __future__ import annotations

import pytest

from tests.mutants.listed import Mutant
from tests.mutants.mutation_run import MutationRun, Verdict

TESTS = """
from pathlib import Path
from product import x

def test_one():
    Path(RUN).open("a").write("one ")
    assert x < 3

def test_two():
    Path(RUN).open("a").write("two ")
    assert x == 1
"""


@pytest.fixture
def base(tmp_path):
    tree = tmp_path / "base"
    tree.mkdir()
    (tree / "product.py").write_text("x = 1\n")
    (tree / "test_product.py").write_text(f"RUN = {str(tmp_path / 'ran')!r}\n{TESTS}")
    return tree


@pytest.mark.parametrize(
    ("after", "killer", "ran"),
    [
        ("2", "test_product.py::test_two", "two"),
        ("2", "test_product.py::test_gone", "one two"),
        ("2", "test_others.py::test_of_no_concern", "one two"),
        ("3", "test_product.py::test_two", "two"),
        ("2", "test_product.py::test_one", "one one two"),
    ],
)
def test_the_test_that_killed_a_mutant_last_is_run_first(base, tmp_path, after, killer, ran):
    mutant = Mutant("name", "area", "product.py", "1", after, tests=("test_product.py",))
    run = MutationRun(base, tmp_path, 1, {"name": killer})
    assert run.without_mutants([mutant]) == []
    (tmp_path / "ran").unlink()
    (outcome,) = run.outcomes([mutant], lambda outcome: None)
    assert outcome.verdict == Verdict.KILLED
    assert (tmp_path / "ran").read_text().split() == ran.split()


def test_a_mutant_that_its_killer_does_not_notice_any_more_survives_or_dies_of_the_others(
    base, tmp_path
):
    mutant = Mutant("name", "area", "product.py", "1", "True", tests=("test_product.py::test_one",))
    run = MutationRun(base, tmp_path, 1, {"name": "test_product.py::test_one"})
    run.without_mutants([mutant])
    (outcome,) = run.outcomes([mutant], lambda outcome: None)
    assert outcome.verdict == Verdict.SURVIVED
