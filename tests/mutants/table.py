"""Tables of mutants and their ends, for the terminal and for docs/mutants.md."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from tests.mutants.listed import ROOT
from tests.mutants.mutation_run import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from tests.mutants.mutation_run import Outcome

PAGE = ROOT / "docs" / "mutants.md"
_START, _END = (
    "<!-- result: written by `make mutants ARGS=--record` -->\n",
    "<!-- end of result -->",
)


def outcome_table(outcomes: Iterable[Outcome]) -> str:
    """One line for each mutant."""
    rows = [
        f"| {o.mutant.name} | {o.mutant.file} | {o.verdict} | {_cell(o.how)} | {o.seconds:.0f} |"
        for o in outcomes
    ]
    return "\n".join(["| mutant | file | | by | seconds |", "|---|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def area_table(outcomes: Iterable[Outcome]) -> str:
    """One line for each list: how many mutants came to which end."""
    rows = []
    for area, own in groupby(outcomes, lambda outcome: outcome.mutant.area):
        of_area = list(own)
        counts = Counter(outcome.verdict for outcome in of_area)
        ends = " | ".join(str(counts[verdict]) for verdict in Verdict)
        rows.append(f"| {area} | {len(of_area)} | {ends} |")
    head = " | ".join(["list", "mutants", *Verdict])
    return "\n".join([f"| {head} |", "|---" * (2 + len(Verdict)) + "|", *rows])


def record(outcomes: list[Outcome], commit: str, day: date, minutes: float) -> None:
    """Write a run's result into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_START)
    _, _, after = rest.partition(_END)
    result = (
        f"Commit {commit}, {day.isoformat()}, {len(outcomes)} mutants in {minutes:.0f} minutes.\n\n"
        f"{area_table(outcomes)}\n\n{outcome_table(outcomes)}\n"
    )
    PAGE.write_text(before + _START + result + _END + after, encoding="utf-8")
