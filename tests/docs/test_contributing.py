"""What CONTRIBUTING.md tells people to edit and to run is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import LINK, ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STORIES = ("A metadata store", "A state kind", "A Spark version", "A new environment")
FILES = sorted(set(re.findall(r"`([\w.]+(?:/[\w.]+)+)`", PAGE)))


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_the_page_names_is_there(path):
    # A file of the reader's own goes into a folder that is there.
    named = ROOT / path if "NAME" not in path else (ROOT / path).parent
    linked = {(ROOT / target).resolve() for target, _ in LINK.findall(PAGE)}
    assert named.exists() or any(str(target).endswith(f"/{path}") for target in linked), path


def test_files_that_links_name_are_there():
    assert [path for path, _ in LINK.findall(PAGE) if not (ROOT / path).exists()] == []


def test_targets_of_make_are_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", PAGE, re.MULTILINE)) <= targets


@pytest.mark.parametrize("story", STORIES)
def test_a_change_names_its_files_in_order(story):
    section = PAGE.partition(f"\n### {story}\n")[2].partition("\n### ")[0]
    steps = re.findall(r"^(\d+)\. (.*)$", section, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert all(re.search(r"`[^`]+`", step) for _, step in steps)
    assert "Tests: " in section or "contract tests" in section
