from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.pages import LINK, PAGES, ROOT
from tests.proofs.ledger import Pass, digest
from tests.proofs.listed import PROOFS

sys.path.insert(0, str(ROOT / "docs"))

import capabilities
import generate

TESTS = [test for group in capabilities.GROUPS for row in group.rows for test in row.tests]
SUITES = (
    "apache_beam.runners.portability.portable_runner_test",
    "apache_beam.runners.portability.fn_api_runner.fn_runner_test",
)
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)


def test_what_is_generated_is_up_to_date():
    pages = generate.generated().items()
    stale = [path for path, text in pages if path.read_text(encoding="utf-8") != text]
    assert not stale, "make docs writes them anew"


@pytest.mark.parametrize("test", [test for test in TESTS if "::" in test])
def test_a_test_of_ours_that_shows_a_capability_is_there(test):
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_tests_of_beams_that_show_a_capability_are_run_by_the_conformance_suites():
    # A test with parameters has their number in its name.
    listed = {re.sub(r"_\d$", "", test) for test in TESTS if "::" not in test}
    assert listed <= {*beams_tests_that_are_run(), *beams_transcripts()}


def beams_tests_that_are_run():
    """Their names, and those with their suites."""
    suites = "\n".join(path.read_text() for path in (ROOT / "tests/conformance").glob("*.py"))
    for module in {*re.findall(r'"(apache_beam\.\S+_test)"', suites), *SUITES}:
        if (found := find_spec(module)) is None:
            continue  # a test of what Beam does not have names it
        source = Path(found.origin).read_text(encoding="utf-8")
        for suite in ast.walk(ast.parse(source)):
            for node in suite.body if isinstance(suite, ast.ClassDef) else ():
                if isinstance(node, ast.FunctionDef) and not any(map(skips, node.decorator_list)):
                    yield from (node.name, f"{suite.name}.{node.name}")


def beams_transcripts():
    text = (files("apache_beam") / "testing/data/trigger_transcripts.yaml").read_text()
    for name in re.findall(r"^name: (\w+)", text, re.MULTILINE):
        yield f"TestStreamTranscriptTest.test_{name}"


def skips(decorator):
    return ast.unparse(decorator).startswith("unittest.skip(")


def test_every_test_that_does_not_pass_stands_in_the_capability_table():
    assert capabilities.unsupported().keys() <= set(TESTS)


def test_a_row_is_supported_exactly_if_all_its_tests_pass():
    row = capabilities.Capability("row", ("a", "b"))
    assert row.state({}) == row.state({"c"}) == "yes"
    assert row.state({"a"}) == "partly"
    assert row.state({"a", "b"}) == "no"


def test_a_row_says_that_the_slow_proof_that_it_rests_on_has_not_passed_yet(monkeypatch):
    test = "integration/test_yarn.py::test_a_stock_example_runs_on_yarn"
    row = capabilities.Capability("row", (test, "test_pardo"))
    page = generate._capability_page
    monkeypatch.setattr(generate, "GROUPS", (capabilities.Group("group", (row,)),))
    assert f"| yes, in part by a slow proof | `{test}` (slow proof: yarn)<br>" in page()
    monkeypatch.setattr(generate, "passes", dict)
    assert f"slow proof, not passed yet | `{test}` (slow proof: yarn, not passed yet)<br>" in page()


def test_the_page_says_of_which_proofs_the_tests_have_changed_since(monkeypatch):
    (yarn,) = (proof for proof in PROOFS if proof.name == "yarn")
    done = Pass("commit", "day", 3, 2, 0, digest(yarn))
    monkeypatch.setattr(generate, "passes", lambda: {"yarn": done})
    assert generate._passed(yarn) == "`commit`, day, 2 tests, 3 s"
    done = replace(done, tests="of others")
    assert generate._passed(yarn) == "`commit`, day, 2 tests, 3 s; its tests have changed since"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    lost = []
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            lost.append((path, heading))
    assert lost == []


def anchors(page):
    """What the headings of a page are called in links."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_and_every_decision_stands_in_the_index():
    index = ROOT / "docs/index.md"
    listed = {index.parent / path for path, _ in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page for page in PAGES if page.parent != ROOT} - {index} <= listed
