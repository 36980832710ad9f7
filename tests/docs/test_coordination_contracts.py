"""The promises of locality and of coordination name tests and mutants, and these are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.listed import mutants

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.*?) \| (.+?) \|$", re.MULTILINE)
SHOWN = re.compile(r"`([^`]+\.py)`((?: \w+,?)*)")
PAGES = {"locality_contract": 15, "azure_contract": 25}


def rows(page):
    return ROW.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("page", "points"), PAGES.items())
def test_each_point_has_a_test_that_is_there_or_is_open(page, points):
    assert [int(number) for number, *_ in rows(page)] == list(range(1, points + 1))
    for number, _, shown, more in rows(page):
        found = SHOWN.findall(shown)
        assert found or "Open: " in more, number
        for path, tests in found:
            text = (ROOT / path).read_text(encoding="utf-8")
            for test in tests.replace(",", "").split():
                assert f"def {test}(" in text, (number, test)


@pytest.mark.parametrize("page", PAGES)
def test_each_mutant_of_a_point_is_listed(page):
    listed = {mutant.name for mutant in mutants()}
    for number, _, _, more in rows(page):
        named = set(re.findall(r"`([a-z-]+)`", more.partition("Open:")[0]))
        assert named <= listed, (number, named - listed)
