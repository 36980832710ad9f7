"""The table of versions: what it has to name, how it is kept, and what its stream would notice."""

from __future__ import annotations

import re

import pytest
from packaging.specifiers import SpecifierSet

from tests.proofs.checkout import Changed
from tests.versions import __main__ as command
from tests.versions.checks import counted
from tests.versions.counting import SOURCES, WINDOW, exact
from tests.versions.environment import ROOT, NoPython, python_of
from tests.versions.pairs import OLDEST, PAIRS
from tests.versions.record import PAGE, Row, write

NUMBERS = 2 * WINDOW + 7


def supported(package: str) -> SpecifierSet:
    """What pyproject.toml says of a package, or of Python."""
    project = (ROOT / "pyproject.toml").read_text()
    found = re.search(rf'^(?:{package} = "|    "{package})([<>=][^"]+)"', project, re.M)
    assert found is not None
    return SpecifierSet(found[1])


@pytest.mark.parametrize(
    ("package", "tried", "candidates"),
    [
        ("apache-beam", {pair.beam for pair in PAIRS}, [f"2.{n}" for n in range(60, 100)]),
        (
            "pyspark",
            {pair.spark for pair in PAIRS},
            ["3.4", "3.5", *(f"4.{n}" for n in range(20))],
        ),
    ],
)
def test_each_version_that_the_package_allows_is_in_some_pair(package, tried, candidates):
    allowed = supported(package)
    assert {version for version in candidates if f"{version}.0" in allowed} == tried


def test_each_python_from_the_oldest_on_is_in_some_pair():
    tried = {pair.python for pair in PAIRS}
    assert tried == {"3.10", "3.11", "3.12", "3.13"}
    assert all(python in supported("requires-python") for python in tried)
    assert "3.9" not in supported("requires-python")
    assert {OLDEST.python, OLDEST.beam, OLDEST.spark} == {"3.10", "2.74", "3.5"}


def test_a_python_that_is_not_there_is_named():
    with pytest.raises(NoPython, match=r"no Python 3\.99 on this machine"):
        python_of("3.99")


def test_rows_of_pairs_that_were_not_run_stay_as_they_are(tmp_path):
    page = tmp_path / "versions.md"
    begin = "<!-- versions: written by make test-versions -->"
    page.write_text(f"Before.\n\n{begin}\n<!-- end of versions -->\n\nAfter.\n")
    names = ["a", "b"]
    first = Row("b", ("1", "2", "3"), {"demo": "ok", "stream": "a | b"}, "abc", "2026-01-01")
    write([first], names, page)
    second = Row("a", ("4", "5", "6"), {}, "def", "2026-01-02")
    write([second, Row("gone", ("7", "8", "9"), {}, "x", "y")], names, page)
    lines = page.read_text().splitlines()
    assert lines[0] == "Before."
    assert lines[-1] == "After."
    assert lines[5:7] == [
        "| a | 4 | 5 | 6 | not run | not run | not run | not run | def | 2026-01-02 |",
        "| b | 1 | 2 | 3 | ok | not run | not run | a / b | abc | 2026-01-01 |",
    ]


@pytest.mark.parametrize(
    "last",
    [
        "53 passed, 4 skipped, 98 deselected in 99.71s (0:01:39)",
        "53 passed, 4 skipped, 98 deselectedWARNING:root:no library in 99.71s",
        "=== 53 passed, 4 skipped, 98 deselected, 2 warnings in 9.71s ===\nWARNING: none",
    ],
)
def test_counts_of_pytest_are_read_whatever_other_processes_print(last):
    printed = f"...s [100%]\nSKIPPED [1] file.py: 7 skipped\n{last}\n"
    assert counted(printed) == "53 passed, 4 skipped, 98 deselected"


@pytest.fixture
def run(monkeypatch):
    """Runs the command; gives its exit code, and the rows that it wrote. No pair is really tried.

    Its argument says at which commit the checkout is, one time after the other; None is a change.
    """
    written = []

    def commit_of(commits):
        if (commit := next(commits)) is None:
            message = "there are changes on top of the commit, such as x; commit them first"
            raise Changed(message)
        return commit

    def tried(pair, wheel, checks, commit, *, fresh):
        return Row(pair.name, ("1", "2", "3"), {}, commit, "2026-01-01"), []

    def run(*commits):
        left = iter(commits)
        monkeypatch.setattr(command, "commit_of", lambda _: commit_of(left))
        return command.main(["--record", "--pair", OLDEST.name]), written

    monkeypatch.setattr(command, "build", lambda _: (None, None))
    monkeypatch.setattr(command, "_tried", tried)
    monkeypatch.setattr(command, "write", lambda rows, _: written.extend(rows))
    return run


def test_a_row_names_the_commit_that_was_tried(run):
    code, (row,) = run("123456789abc", "123456789abc")
    assert code == 0
    assert row.commit == "1234567"


@pytest.mark.parametrize(
    ("commits", "said"),
    [
        ([None], "changes on top of the commit"),
        (["123456789abc", None], "changes on top of the commit"),
        (["123456789abc", "cba987654321"], "another commit was checked out meanwhile"),
    ],
)
def test_no_row_is_written_if_the_checkout_is_changed_before_or_meanwhile(
    run, capsys, commits, said
):
    assert run(*commits) == (1, [])
    assert said in capsys.readouterr().err


def test_the_page_has_a_place_for_the_rows():
    text = PAGE.read_text()
    begin = text.index("<!-- versions: written by make test-versions -->")
    assert text.index("<!-- end of versions -->") > begin


@pytest.fixture
def output(tmp_path):
    """What the stream writes if it is right."""
    for source in SOURCES:
        for start in range(0, NUMBERS, WINDOW):
            inside = range(start, min(start + WINDOW, NUMBERS))
            (tmp_path / f"window-{source}-{start}").write_text(f"{sum(inside)} {len(inside)}")
    return tmp_path


def test_an_output_with_each_number_once_is_exact(output):
    assert exact(output) == dict.fromkeys(SOURCES, NUMBERS)


@pytest.mark.parametrize("wrong", ["1225 49", "1225 51", "1226 50", "1275 51"])
def test_a_number_that_is_missing_doubled_or_another_is_noticed(output, wrong):
    (output / "window-b-0").write_text(wrong)
    with pytest.raises(AssertionError, match="source b"):
        exact(output)


def test_a_window_or_a_source_that_is_missing_is_noticed(output):
    (output / "window-a-50").unlink()
    with pytest.raises(AssertionError, match="source a"):
        exact(output)
    for file in output.glob("window-*"):
        file.unlink()
    with pytest.raises(AssertionError, match="gave nothing"):
        exact(output)
