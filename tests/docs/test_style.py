"""The page of style has ten rules, and what it calls bad stands nowhere in the product."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/style.md").read_text(encoding="utf-8")
RULES = re.split(r"^## (?=\d)", PAGE.partition("\n## In code")[0], flags=re.MULTILINE)[1:]
BAD = [" ".join(text.split()) for text in re.findall(r"^- Bad: `(.*)`$", PAGE, re.MULTILINE)]


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


def test_the_page_for_contributors_leads_to_it():
    assert "(docs/style.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
