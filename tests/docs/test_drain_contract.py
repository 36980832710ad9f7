"""Each of the promises of a drain names tests, and these are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.ledger import known_ends
from tests.mutants.listed import mutants
from tests.mutants.mutation_run import Verdict
from tests.proofs.slow_tests import is_slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "drain_contract.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
SHOWN = re.compile(r"`([^`]+\.py)` ([\w, ]+)")
POINTS = {int(number): (what, shown) for number, what, shown in ROW.findall(PAGE)}
TESTS = sorted(
    {
        (path, test)
        for _, shown in POINTS.values()
        for path, tests in SHOWN.findall(shown)
        for test in tests.split(", ")
    }
)


def test_there_are_sixty_points_and_each_has_a_test():
    assert list(POINTS) == list(range(1, 61))
    assert all(SHOWN.search(shown) for _, shown in POINTS.values())


def test_nothing_stands_among_the_tests_that_is_none():
    for _, shown in POINTS.values():
        assert re.sub(SHOWN, "", shown).strip("; ") == "", shown


@pytest.mark.parametrize(("path", "test"), TESTS)
def test_a_test_that_shows_a_point_is_there(path, test):
    text = (ROOT / path).read_text(encoding="utf-8")
    # Beam's own tests are taken into a suite by name.
    assert re.search(rf"^ *(def {test}\(|{test} = )", text, re.MULTILINE), f"{path} has no {test}"


def shown_by(point):
    shown = SHOWN.findall(POINTS[point][1])
    return {f"{path}::{test}" for path, tests in shown for test in tests.split(", ")}


def test_every_point_is_shown_by_a_test_of_the_default_run():
    assert [point for point in POINTS if all(map(is_slow, shown_by(point)))] == []


def test_every_point_names_a_test_that_has_killed_a_mutant_of_it():
    """Or that the killed mutant lists by name: the run ends with the first test that fails."""
    ends = known_ends()
    killers = {point: set() for point in POINTS}
    for mutant in mutants():
        end = ends.get(mutant.name)
        if end is not None and end.verdict == Verdict.KILLED:
            for point in mutant.points:
                killers[point] |= {test.partition("[")[0] for test in (*mutant.tests, end.how)}
    assert [point for point in POINTS if killers[point].isdisjoint(shown_by(point))] == []


def test_decisions_that_points_refer_to_are_there():
    for number in set(re.findall(r"decision (\d+)", PAGE)):
        assert list((ROOT / "docs/decisions").glob(f"{int(number):04}-*.md")), number


def test_the_page_says_which_end_is_for_what():
    page = (ROOT / "docs" / "drain.md").read_text(encoding="utf-8")
    section = page.partition("## Which end for what")[2].partition("\n## ")[0]
    for end in ("**drain**", "**cancel**", "**stop the program**", "**kill the driver**"):
        assert section.count(f"| {end}") == 1
    assert "never happens by itself" in page
