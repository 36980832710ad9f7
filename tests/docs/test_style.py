"""The page of style has ten rules, and the product keeps those that a test can check."""

from __future__ import annotations

import re
from functools import cache

from tests.docs.pages import PAGES, ROOT

PAGE = (ROOT / "docs/style.md").read_text(encoding="utf-8")
RULES = re.split(r"^## (?=\d)", PAGE.partition("\n## In code")[0], flags=re.MULTILINE)[1:]
BAD = [" ".join(text.split()) for text in re.findall(r"^- Bad: `(.*)`$", PAGE, re.MULTILINE)]
# Pronouns that hide who acts, see rule 1. Names of tests and mutants may have them.
NO_ONE = re.compile(r"\b(somebody|nobody|anybody|whoever)\b", re.IGNORECASE)
# These pages quote what not to write, or consist of names.
QUOTING = ("docs/style.md", "docs/words.md", "docs/mutants.md")


def test_there_are_ten_rules_with_a_bad_and_a_good_example():
    assert [int(rule.partition(".")[0]) for rule in RULES] == list(range(1, 11))
    assert all(rule.count("\n- Bad: ") == rule.count("\n- Good: ") == 1 for rule in RULES)


def test_no_bad_example_stands_in_the_product():
    found = []
    for folder in ("runner/sparkdrain", "timers_state", "proto", "docs/decisions"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".md", ".proto"):
                text = " ".join(path.read_text(encoding="utf-8").split())
                found += [(path.name, bad) for bad in BAD if bad in text]
    assert found == []
    assert len(BAD) == 10


@cache
def modules():
    """The text of each module of the product, by its path from the project's root."""
    paths = [*(ROOT / "runner").rglob("*.py"), *(ROOT / "timers_state").rglob("*.py")]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if not path.stem.endswith("_pb2")
    }


def hidden_actors(text):
    """The numbers of lines in which a pronoun hides who acts, without code in backticks."""
    lines = text.split("\n")
    return [n for n, line in enumerate(lines, 1) if NO_ONE.search(re.sub(r"`[^`]*`", "", line))]


def test_a_sentence_says_who_acts():
    texts = {
        page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES
    } | modules()
    found = {
        path: lines
        for path, text in texts.items()
        if not path.startswith(QUOTING) and (lines := hidden_actors(text))
    }
    assert found == {}


def test_names_in_code_may_say_nobody():
    text = "`tell-drops-nobody`\ntest_whoever_asks_is_told\nNobody asks.\n# what anybody has"
    assert hidden_actors(text) == [3, 4]


# A docstring that goes on with the name above it, and an attribute's text that does, see rules 5
# and 6: "Of one slot." and "name: of the step."
GOES_ON = re.compile(r'^\s*("""(Of|To|By|For|Those|It|Its|They|Their) |\w+: of )')


def that_go_on(text):
    return [n for n, line in enumerate(text.split("\n"), 1) if GOES_ON.match(line)]


def test_a_docstring_does_not_go_on_with_the_name_above_it():
    found = {path: lines for path, text in modules().items() if (lines := that_go_on(text))}
    assert found == {}


def test_a_docstring_that_goes_on_is_found_and_a_comment_is_not():
    text = '"""Of one slot."""\n  name: of the step.\n  name: the step.\n# Of it.\n"""It is."""'
    assert that_go_on(text) == [1, 2, 5]


ONLY_SEES = re.compile(r'"""See [^\s;:]+\."""')


def test_a_docstring_says_more_than_where_to_look():
    found = {path: lines for path, text in modules().items() if (lines := ONLY_SEES.findall(text))}
    assert found == {}


def test_a_docstring_that_only_refers_is_found():
    text = (
        '"""See ``Client``."""\n"""See ``Client``. Links files."""\n"""See ``Clock``; in memory."""'
    )
    assert ONLY_SEES.findall(text) == ['"""See ``Client``."""']


def test_the_page_for_contributors_leads_to_it():
    assert "(docs/style.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
