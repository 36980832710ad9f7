"""Links of the documentation into the code name what is there."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, ROOT, code_links, is_right


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_into_the_code_names_what_the_file_defines(page):
    wrong = [(text, str(target)) for text, target in code_links(page) if not is_right(text, target)]
    assert wrong == []


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
