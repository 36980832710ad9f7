"""Which commit is tried, for runs that write down at which commit they passed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# What such runs themselves write.
_WRITTEN: Final = tuple(
    f"docs/{name}"
    for name in (
        "capability.md",
        "mutants.json",
        "mutants.md",
        "proofs.json",
        "proofs.md",
        "versions.md",
    )
)


class Changed(Exception):
    """The checkout is no commit; names a file that was changed."""


def commit_of(root: Path) -> str:
    """The commit that is checked out, with nothing changed on top.

    Raises:
        Changed: something else than what such runs write was changed.
    """
    lines = _git(root, "status", "--porcelain")
    changed = [line[3:] for line in lines if line[3:] not in _WRITTEN]
    if changed:
        message = f"there are changes on top of the commit, such as {changed[0]}; commit them first"
        raise Changed(message)
    (commit,) = _git(root, "rev-parse", "HEAD")
    return commit[:12]


def commits_of(root: Path) -> frozenset[str]:
    """Every commit of the history, as `commit_of` names it; empty where not all of it is here."""
    if _git(root, "rev-parse", "--is-shallow-repository", check=False) != ["false"]:
        return frozenset()
    return frozenset(commit[:12] for commit in _git(root, "rev-list", "HEAD"))


def _git(root: Path, *arguments: str, check: bool = True) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=root, check=check, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()
