"""Tables of mutants and their ends, for the terminal and for docs/mutants.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.mutants.mutation_run import GOOD, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mutants.ledger import End, ListRun


def mutant_table(ends: Mapping[str, End]) -> str:
    """One line for each mutant."""
    rows = [
        f"| {name} | {end.file} | {end.verdict} | {_cell(end.how)} | {end.seconds} |"
        for name, end in ends.items()
    ]
    return "\n".join(["| mutant | file | | by | seconds |", "|---|---|---|---|---|", *rows])


def list_table(runs: Mapping[str, ListRun], sizes: Mapping[str, int]) -> str:
    """One line for each list: how many of its mutants came to which end, and at which commit.

    Args:
        runs: by the names of lists.
        sizes: how many mutants each list has now.
    """
    return "\n".join(
        [
            "| list | mutants now | killed | equivalent | others | commit | day | minutes |",
            "|---|---|---|---|---|---|---|---|",
            *(_list_row(area, size, runs.get(area)) for area, size in sizes.items()),
        ]
    )


def _list_row(area: str, size: int, run: ListRun | None) -> str:
    if run is None:
        return f"| {area} | {size} | not run yet | | | | | |"
    counts = Counter(end.verdict for end in run.mutants.values())
    others = [name for name, end in run.mutants.items() if end.verdict not in GOOD]
    said = ", ".join(f"`{name}`: {run.mutants[name].verdict}" for name in others) or "none"
    return (
        f"| {area} | {size} | {counts[Verdict.KILLED]} | {counts[Verdict.EQUIVALENT]} | {said} "
        f"| `{run.commit}` | {run.day} | {run.seconds / 60:.0f} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
