"""Tables of mutants and their ends, for the terminal and for docs/mutants.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from sparkdrain.english import counted
from tests.mutants.mutation_run import GOOD, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutants.ledger import End
    from tests.mutants.listed import Mutant


def mutant_table(mutants: Iterable[Mutant], ends: Mapping[str, End]) -> str:
    """One line for each mutant that has an end."""
    rows = [
        f"| {each.name} | {each.file} | {end.verdict} | {_cell(end.how)} | {end.seconds} | "
        f"`{end.commit}` |"
        for each in mutants
        if (end := ends.get(each.name)) is not None
    ]
    return "\n".join(
        ["| mutant | file | | by | seconds | commit |", "|---|---|---|---|---|---|", *rows]
    )


def list_table(mutants: Iterable[Mutant], ends: Mapping[str, End]) -> str:
    """One line for each list, and one for all: how its mutants ended, and when they were run."""
    lists: dict[str, list[str]] = defaultdict(list)
    for each in mutants:
        lists[each.area].append(each.name)
    head = "| list | mutants | killed | equivalent | others | not run | days | minutes |"
    rows = [_list_row(area, names, ends) for area, names in lists.items()]
    everything = _list_row("all", [name for names in lists.values() for name in names], ends)
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *rows, everything])


def duration(ends: Iterable[End]) -> str:
    """How long the tests of all mutants took."""
    known = list(ends)
    minutes = sum(end.seconds for end in known) / 60
    parts = counted(len({end.commit for end in known}), "commit")
    return (
        f"The tests of all mutants took {minutes:.0f} minutes, which is {minutes / 2:.0f} minutes "
        f"for two processes, in runs at {parts}. Copies, and tests without a mutant, are not "
        "counted."
    )


def _list_row(area: str, names: Sequence[str], ends: Mapping[str, End]) -> str:
    own = {name: ends[name] for name in names if name in ends}
    counts = Counter(end.verdict for end in own.values())
    others = [f"`{name}`: {end.verdict}" for name, end in own.items() if end.verdict not in GOOD]
    days = sorted({end.day for end in own.values()})
    span = " to ".join(days[:: len(days) - 1] if len(days) > 1 else days)
    minutes = sum(end.seconds for end in own.values()) / 60
    return (
        f"| {area} | {len(names)} | {counts[Verdict.KILLED]} | {counts[Verdict.EQUIVALENT]} "
        f"| {', '.join(others) or 'none'} | {len(names) - len(own)} | {span} | {minutes:.0f} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
