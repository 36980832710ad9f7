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
    ("printed", "code", "said"),
    [
        (json.dumps(REPORT), 1, "2 of 3 locked packages were audited, 1 findings"),
        (json.dumps({"dependencies": REPORT["dependencies"][::2]}), 0, "nothing of hidden"),
        ("no network", 0, "not audited"),
    ],
)
def test_the_audit_fails_if_something_is_found_and_says_who_was_not_audited(
    capsys, printed, code, said
):
    assert main([sys.executable, "-c", f"print({printed!r})"]) == code
    out = capsys.readouterr()
    assert said in out.out + out.err
