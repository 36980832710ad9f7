"""Sentences of the pages are short enough to be understood at the first reading."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, ROOT

# Rule 9 of docs/style.md asks for about twenty.
MOST_WORDS = 40
# Pages that are generated, or that are tables.
TABLES = {"capability.md", "mutants.md", "options.md", "proofs.md"}
TEXTS = [
    page
    for page in PAGES
    if page.parent in (ROOT, ROOT / "docs")
    and page.name not in TABLES
    and not page.name.endswith("_contract.md")
]


def paragraphs(text):
    """Each paragraph and item of a list; neither code nor headings nor rows of tables."""
    lines = []
    for line in [*re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL).split("\n"), ""]:
        begins = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if (begins or not line.strip() or line.startswith(("#", "|"))) and lines:
            yield " ".join(lines)
            lines = []
        if line.strip() and not line.startswith(("#", "|")):
            lines.append(line[begins.end() :] if begins else line.strip())


def sentences(text):
    """Each sentence; a span of code is one word, and a link is its text."""
    for paragraph in paragraphs(text):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", paragraph))
        yield from re.split(r"(?<=[.!?])[)*_]*\s+", plain)


def words(sentence):
    return len(re.findall(r"\w[\w',.-]*", sentence))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_no_sentence_is_longer_than_forty_words(page):
    text = page.read_text(encoding="utf-8")
    assert [each for each in sentences(text) if words(each) > MOST_WORDS] == []


def test_sentences_are_found_in_paragraphs_and_lists():
    text = """# Title. Of a page
One, two ([three](four.md)). *Five* `six seven`
eight.

- Nine (ten.) Eleven?
  Twelve
1. Thirteen

| a. b | c |
```sh
code. code
```
"""
    found = list(sentences(text))
    assert found == [
        "One, two (three).",
        "*Five* code eight.",
        "Nine (ten.",
        "Eleven?",
        "Twelve",
        "Thirteen",
    ]
    assert list(map(words, found)) == [3, 3, 2, 1, 1, 1]
