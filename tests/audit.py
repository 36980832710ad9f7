"""Command line: ``python -m tests.audit FILE...``; asks which locked packages are vulnerable.

``make audit`` calls it with what ``pip-audit`` may run on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ACCEPTED: Final[Mapping[str, str]] = {}
"""Vulnerabilities by id, each with the reason why this project does not suffer from it."""


def findings(report: Mapping[str, Any], accepted: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What a report of ``pip-audit`` says: vulnerabilities, and packages that it knows nothing of.

    Args:
        report: what ``pip-audit --format=json`` writes.
        accepted: vulnerabilities that are left out, by id or alias.
    """
    found, unknown = [], []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            unknown.append(package["name"])
        for hole in package.get("vulns", ()):
            if accepted.keys().isdisjoint([hole["id"], *hole["aliases"]]):
                fixed = ", ".join(hole["fix_versions"]) or "no release yet"
                found.append(
                    f"{package['name']} {package['version']}: {hole['id']}, fixed in {fixed}"
                )
    return found, unknown


def main(command: Sequence[str]) -> int:
    """Run ``pip-audit`` and tell; 1 if a package is vulnerable.

    The last line says how many packages were audited. An index that cannot be asked, or knows
    nothing of vulnerabilities, as mirrors often do, is no error, and that line says so.
    """
    done = subprocess.run([*command, "--format=json"], check=False, capture_output=True, text=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        print(f"not audited: pip-audit could not ask the index: {reason}")
        return 0
    found, unknown = findings(report, ACCEPTED)
    for line in found:
        print(line)
    asked = len(report["dependencies"])
    audited = asked - len(unknown)
    if audited and unknown:
        print(f"The index tells nothing of {', '.join(unknown)}.")
    if audited:
        print(f"audited: {audited} of {asked} locked packages, {len(found)} findings")
    else:
        print(f"not audited: the index tells nothing of any of {asked} locked packages")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
