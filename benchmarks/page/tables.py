"""The tables of the page, from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ratios import ratios
from benchmarks.report import table
from benchmarks.rows import RATE
from benchmarks.runners import OURS, RUNNERS, runner_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.jobs import Job
    from benchmarks.rows import Row, StartRow

_STEPS = (
    ("save every second", "sparkdrain", "sparkdrain-saved"),
    ("save every second", "bytewax-one", "bytewax-one-saved"),
    ("save every second", "bytewax-apart", "bytewax-apart-saved"),
    ("exchange with a second process", "bytewax-one", "bytewax-two"),
)
_HEAD = ("job", "runner", "n", "seconds", "elements/s", "elements/CPU s", "CPU µs/element", "load")


def rates_table(jobs: Sequence[Job], rows: Sequence[Row]) -> str:
    """Ours and the fastest setting of each peer, with ratios of rates and of CPU time."""
    found = {(ratio.job, ratio.family): ratio for ratio in ratios(jobs, rows)}
    cells = []
    for row in rows:
        if row.outdone:
            continue
        ratio = found.get((row.job, row.family))
        values = (ratio.value, ratio.cpu) if ratio else (None, None)
        cells.append([*_cells(row), *(_times(value) for value in values)])
    return table([*_HEAD, "ours, by rate", "ours, per core"], cells)


def aims_table(jobs: Sequence[Job], rows: Sequence[Row]) -> str:
    """What the jobs aim at, by rate and beside peers, and whether this runner is there."""
    rates = {row.job: row.rate for row in rows if row.family == OURS}
    cells = [
        [job.name, RATE, f"{goal.at_least:,g}", f"{rate:,.0f}", _verdict(goal.is_met(rate))]
        for job in jobs
        for goal in job.goals
        if goal.figure == RATE and (rate := rates.get(job.name)) is not None
    ]
    cells += [
        [
            ratio.job,
            f"times `{ratio.setting}`",
            f"{ratio.later:g}",
            _times(ratio.value),
            _verdict(ratio.value >= ratio.later),
        ]
        for ratio in ratios(jobs, rows)
        if ratio.later is not None and ratio.value is not None
    ]
    return table(["job", "what", "aim", "seen", ""], cells)


def settings_table(rows: Sequence[Row]) -> str:
    """Every setting of the peers that have several, each with one run or more."""
    several = [
        row
        for row in rows
        if sum((row.job, row.family) == (other.job, other.family) for other in rows) > 1
    ]
    cells = [[*_cells(row), "" if row.outdone else "counts"] for row in several]
    return table([*_HEAD, ""], cells)


def edge_note(rows: Sequence[Row]) -> str:
    """Where the largest micro-batch that was tried was the fastest; empty where none was."""
    most = max(runner.rows for runner in RUNNERS)
    jobs = [
        f"`{row.job}`"
        for row in rows
        if runner_named(row.runner).rows == most and not row.outdone and row.rate is not None
    ]
    if not jobs:
        return ""
    where = " and ".join(jobs)
    return f"\n\nThe largest micro-batch was the fastest in {where}: a larger one may be faster."


def steps_table(rows: Sequence[Row]) -> str:
    """What an element costs with state in memory alone, and what each step beyond that adds."""
    costs = {(row.job, row.runner): row.cpu_micros for row in rows}
    cells = []
    for job in dict.fromkeys(row.job for row in rows):
        for step, before, after in _STEPS:
            first, then = costs.get((job, before)), costs.get((job, after))
            if first is not None and then is not None:
                micros = [f"{cost:.1f}" for cost in (first, then, then - first)]
                cells.append([job, step, f"`{before}`, `{after}`", *micros])
    return table(["job", "step", "without, with", "µs without", "µs with", "difference"], cells)


def figures_lines(jobs: Sequence[Job], rows: Sequence[Row]) -> str:
    """What jobs of this runner found out beside rates, with the aims."""
    aims = {(job.name, goal.figure): goal for job in jobs for goal in job.goals}
    cells = []
    for row in rows:
        if row.family != OURS:
            continue
        for name in row.figures:
            goal = aims.get((row.job, name))
            aim = f"{goal.at_most:,g} at most" if goal and goal.at_most is not None else ""
            value = row.figure(name)
            cells.append([row.job, name, "-" if value is None else f"{value:,.0f}", aim])
    return table(["job", "figure", "value", "aim"], cells)


def starts_table(rows: Sequence[StartRow]) -> str:
    """Start-up of each runner."""
    head = ["runner", "cold process to the end of its first pipeline (s)", "second pipeline (s)"]
    cells = [
        [row.runner, _seconds(row.first, 2), _seconds(row.second, 2)]
        if not row.problem
        else [row.runner, row.problem, ""]
        for row in rows
    ]
    return table(head, cells)


def _cells(row: Row) -> list[str]:
    start = [row.job, f"`{row.runner}`", f"{row.n:,}"]
    if row.rate is None or row.cpu_micros is None:
        return [*start, " ".join(row.problem.split())[:120], *[""] * 4]
    return [
        *start,
        _seconds(row.seconds),
        f"{row.rate:,.0f}",
        f"{row.per_cpu_second or 0:,.0f}",
        f"{row.cpu_micros:,.1f}",
        f"{max(row.loads):.1f}",
    ]


def _seconds(values: Sequence[float], digits: int = 1) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def _times(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
