"""Tables of a benchmark run, as Markdown that reads well in a terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.runners import OURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.jobs import Goal, Job
    from benchmarks.rows import Ratio, Row, StartRow

FIRST_PIPELINE_SECONDS = 8.0
SECOND_PIPELINE_SECONDS = 1.0
PROBLEM_LENGTH = 200
_CPU = ("CPU µs/element", "elements/CPU s")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of even width."""
    cells = [head, *([cell.replace("|", "/") for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in cells]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([f"{lines[0]} |", rule, *(f"{line} |" for line in lines[1:])])


def rows_table(rows: Sequence[Row]) -> str:
    """Rates, times, CPU and memory of each job on each runner; or why there are none."""
    head = ["job", "runner", "n", "elements/s", "runs (s)", "warm-up (s)"]
    return table([*head, *_CPU, "peak RSS (MB)", "load", "result"], [_row(r) for r in rows])


def figures_table(rows: Sequence[Row]) -> str:
    """What the jobs found out beside their rates; "" where they found nothing."""
    cells = [
        [row.job, row.runner, name, f"{row.figure(name):,.0f}", _list(values, 0)]
        for row in rows
        for name, values in row.figures.items()
        if row.figure(name) is not None
    ]
    return table(["job", "runner", "figure", "median", "runs"], cells) if cells else ""


def goals_table(jobs: Sequence[Job], rows: Sequence[Row]) -> str:
    """Each goal of a job with what was found; "" where the jobs have none."""
    ours = {row.job: row for row in rows if row.family == OURS}
    cells = [
        _goal(job.name, goal, ours[job.name].figure(goal.figure))
        for job in jobs
        if job.name in ours
        for goal in job.goals
    ]
    return table(["job", "figure", "value", "goal", "verdict"], cells) if cells else ""


def ratios_table(ratios: Sequence[Ratio]) -> str:
    """Each ratio with its bars."""
    head = ["job", "against", "ratio", "CPU ratio", "bar now", "bar later", "verdict", "note"]
    return table(head, [_ratio(r) for r in ratios])


def startup_table(rows: Sequence[StartRow]) -> str:
    """Start-up of each runner, with the bars that ours has."""
    head = ["runner", "cold process to end of first pipeline (s)", "second pipeline (s)", "result"]
    return table(head, [_start(r) for r in rows])


def _row(row: Row) -> list[str]:
    if row.rate is None:
        return [row.job, row.runner, f"{row.n:,}", *[""] * 7, _short(row.problem)]
    return [
        *(row.job, row.runner, f"{row.n:,}", f"{row.rate:,.0f}", _list(row.seconds)),
        "" if row.warm_up is None else f"{row.warm_up:.1f}",
        *(f"{row.cpu_micros:.1f}", f"{row.per_cpu_second or 0:,.0f}"),
        *(f"{row.peak_rss / 1e6:,.0f}", _list(row.loads)),
        "as expected; a faster setting counts" if row.outdone else "as expected",
    ]


def _ratio(ratio: Ratio) -> list[str]:
    note = f"fastest setting: {ratio.setting}" if ratio.setting not in ("", ratio.family) else ""
    if ratio.peer_share != 1:
        note = "; ".join(filter(None, [note, f"peer ran {ratio.peer_share:g} x n, rates compared"]))
    values = [_times(ratio.value), _times(ratio.cpu)]
    bars = [_bar(ratio.now), _bar(ratio.later)]
    return [ratio.job, ratio.family, *values, *bars, ratio.verdict, note]


def _goal(job: str, goal: Goal, value: float | None) -> list[str]:
    bounds = [
        *(() if goal.at_least is None else [f"≥ {goal.at_least:,g}"]),
        *(() if goal.at_most is None else [f"≤ {goal.at_most:,g}"]),
    ]
    if value is None:
        return [job, goal.figure, "-", ", ".join(bounds), "no figure"]
    verdict = "met" if goal.is_met(value) else "NOT MET"
    return [job, goal.figure, f"{value:,.0f}", ", ".join(bounds), verdict]


def _start(row: StartRow) -> list[str]:
    if row.problem:
        return [row.runner, "", "", _short(row.problem)]
    verdict = "as expected"
    if row.runner == OURS:
        first = _within(median(row.first), FIRST_PIPELINE_SECONDS)
        second = _within(median(row.second), SECOND_PIPELINE_SECONDS)
        verdict = f"first {first}, second {second}"
    return [row.runner, _with_median(row.first), _with_median(row.second), verdict]


def _short(problem: str) -> str:
    """Fits a cell; the JSON lines have it whole."""
    return problem if len(problem) <= PROBLEM_LENGTH else problem[: PROBLEM_LENGTH - 3] + "..."


def _within(seconds: float, bar: float) -> str:
    return f"{'within' if seconds <= bar else 'ABOVE'} {bar:g} s"


def _with_median(seconds: Sequence[float]) -> str:
    text = f"{median(seconds):.2f}"
    return f"{text} (of {_list(seconds, 2)})" if len(seconds) > 1 else text


def _list(values: Sequence[float], digits: int = 1) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _bar(bar: float | None) -> str:
    return "-" if bar is None else f"≥ {bar:g}x"
