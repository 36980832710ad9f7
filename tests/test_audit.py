"""Vulnerable packages fail the audit; those of which nothing is known are named."""

from __future__ import annotations

import json
import sys

import pytest

from tests.audit import findings, main

HOLE = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.1"], "description": ""}
REPORT = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "1.0", "vulns": [HOLE]},
        {"name": "hidden", "skip_reason": "not found"},
    ],
    "fixes": [],
}


def test_a_vulnerable_package_is_told_with_its_remedy():
    assert findings(REPORT, {}) == (["bad 1.0: PYSEC-1, fixed in 1.1"], ["hidden"])


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-1"])
def test_what_is_accepted_by_its_name_or_another_is_left_out(name):
    assert findings(REPORT, {name: "a reason"}) == ([], ["hidden"])


@pytest.mark.parametrize(
    ("printed", "code", "last"),
    [
        (json.dumps(REPORT), 1, "audited: 2 of 3 locked packages, 1 findings"),
        (
            json.dumps({"dependencies": REPORT["dependencies"][::2]}),
            0,
            "audited: 1 of 2 locked packages, 0 findings",
        ),
        (
            json.dumps({"dependencies": REPORT["dependencies"][2:]}),
            0,
            "not audited: the index tells nothing of any of 1 locked packages",
        ),
        ("no network", 0, "not audited: pip-audit could not ask the index: no route"),
    ],
)
def test_the_last_line_says_what_was_audited_and_only_a_finding_is_an_error(
    capsys, printed, code, last
):
    tool = f"import sys; print({printed!r}); sys.exit('first\\nno route')"
    assert main([sys.executable, "-c", tool]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_packages_of_which_the_index_tells_nothing_are_named(capsys):
    main([sys.executable, "-c", f"print({json.dumps(REPORT)!r})"])
    assert "The index tells nothing of hidden." in capsys.readouterr().out
