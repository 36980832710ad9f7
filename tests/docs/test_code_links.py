"""Links of the documentation into the code name what is there."""

from __future__ import annotations

import re

import pytest

from sparkdrain.drain.phases import DrainPhase
from tests.docs.pages import (
    PAGES,
    ROOT,
    code_links,
    is_right,
    is_there,
    links_in,
    named_files,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_into_the_code_names_what_the_file_defines(page):
    wrong = [(text, str(target)) for text, target in code_links(page) if not is_right(text, target)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_path_in_a_span_of_code_is_there(page):
    # Of the page for contributors, names in capitals stand for their own.
    named = [path for path in named_files(page.read_text(encoding="utf-8")) if "/NAME." not in path]
    assert [path for path in named if not is_there(path)] == []


def test_a_path_may_begin_inside_of_the_project():
    text = "`docs/pages.py`, `tests/docs/pages.py`, `docs/gone.py`, `pages.py`, `a.b`"
    assert named_files(text) == ["docs/pages.py", "tests/docs/pages.py", "docs/gone.py"]
    assert [is_there(path) for path in named_files(text)] == [True, True, False]


@pytest.mark.parametrize("text", ["LINK", "is_right", "docs/pages.py", "pages.py"])
def test_a_name_or_the_end_of_the_path_is_right(text):
    assert is_right(text, ROOT / "tests/docs/pages.py")


@pytest.mark.parametrize("text", ["ast", "gone", "Gone.method", "docs/other.py"])
def test_another_name_is_wrong(text):
    assert not is_right(text, ROOT / "tests/docs/pages.py")
    assert not is_right(text, ROOT / "tests/docs/gone.py")


def test_a_member_is_named_with_its_class(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("class Shelf:\n    books: int = 0\n    def take(self): ...\n")
    assert is_right("Shelf.take", module)
    assert is_right("Shelf.books", module)
    assert not is_right("take", module)
    assert not is_right("Shelf.give", module)


@pytest.mark.parametrize("life", ["an element", "a timer", "a checkpoint", "a drain"])
def test_each_life_in_the_streaming_tour_leads_through_the_code(life):
    page = ROOT / "docs/architecture_streaming.md"
    _, _, section = page.read_text(encoding="utf-8").partition(f"\n## The life of {life}\n")
    targets = {target for _, target in links_in(section.partition("\n## ")[0], page.parent)}
    assert len(targets) >= 8


def test_the_streaming_tour_passes_each_phase_of_a_drain():
    _, _, life = (ROOT / "docs/architecture_streaming.md").read_text().partition("life of a drain")
    drained = [phase.name for phase in DrainPhase if phase.is_cut]
    assert re.findall(r"^\d\. \*\*`(\w+)`", life, re.MULTILINE) == drained
