"""The tables of a run in several environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.environments.ways import PEER
from benchmarks.report import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.environments.track import Found
    from benchmarks.environments.ways import Contest

_HEAD = ("environment", "job", "setting", "n", "seconds", "elements/s", "µs/element")
_RATIOS = ("ours, by rate", "ours, by element", "ours, by CPU", "bar", "load")


def ratios_table(contests: Sequence[Contest], found: Sequence[Found]) -> str:
    """Every setting, with the ratio of ours to it. The bar is against the peer's fastest one."""
    rows = []
    for contest in contests:
        ours = {each.job: each for each in found if each.way == contest.ours}
        ways = (contest.ours, *contest.theirs)
        rows += [_row(contest, each, ours[each.job]) for each in found if each.way in ways]
    return table([*_HEAD, "CPU µs/element", *_RATIOS], rows)


def _row(contest: Contest, each: Found, ours: Found) -> list[str]:
    start = [contest.title, each.job, f"`{each.way.name}`", f"{each.n:,}"]
    if each.seconds is None or each.rate is None:
        return [*start, " ".join(each.problem.split())[:120], *[""] * 8]
    bar = contest.bars.get(each.job)
    ratios = [
        _times(_quotient(ours.rate, each.rate)),
        _times(_quotient(each.micros, ours.micros)),
        _times(_quotient(each.cpu_micros, ours.cpu_micros)),
        "" if bar is None else f"≥ {bar.now:g}",
    ]
    return [
        *start,
        f"{each.seconds:.1f}",
        f"{each.rate:,.0f}",
        _micros(each.micros),
        _micros(each.cpu_micros),
        *(ratios if each.way.family == PEER else [""] * len(ratios)),
        f"{each.load:.1f}",
    ]


def costs_table(contests: Sequence[Contest], found: Sequence[Found]) -> str:
    """What a further element costs here, by job and environment: CPU microseconds."""
    jobs = list(dict.fromkeys(each.job for each in found))
    costs = {(each.way, each.job): each.cpu_micros for each in found}
    rows = [
        [contest.title, *(_micros(costs.get((contest.ours, job))) for job in jobs)]
        for contest in contests
    ]
    return table(["CPU µs for each element", *jobs], rows)


def _quotient(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def _micros(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
