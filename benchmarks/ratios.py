"""Ratios of the runner to its peers, from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.jobs import Bar, Job
from benchmarks.rows import Ratio, Row
from benchmarks.runners import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def ratios(jobs: Sequence[Job], rows: Sequence[Row]) -> list[Ratio]:
    """One ratio per job and peer that was to be measured, and per bar of the job.

    Of a peer's settings the one with the highest rate counts.
    """
    return [
        _ratio(job, family, [row for row in rows if row.job == job.name])
        for job in jobs
        for family in _families(job, rows)
    ]


def _families(job: Job, rows: Sequence[Row]) -> list[str]:
    measured = [row.family for row in rows if row.job == job.name and row.family != OURS]
    return list(dict.fromkeys([*job.bars, *measured]))


def _ratio(job: Job, family: str, rows: Sequence[Row]) -> Ratio:
    ours = next((row for row in rows if row.family == OURS), None)
    settings = [row for row in rows if row.family == family and row.rate is not None]
    best = max(settings, key=lambda row: row.rate or 0.0, default=None)
    bar = job.bars.get(family, Bar(None, None))
    return Ratio(
        job=job.name,
        family=family,
        setting=best.runner if best is not None else "",
        value=_quotient(ours, best, lambda row: row.rate),
        cpu=_quotient(best, ours, lambda row: row.cpu_micros),
        now=bar.now,
        later=bar.later,
        peer_share=best.share / ours.share if best is not None and ours is not None else 1.0,
    )


def _quotient(
    over: Row | None, under: Row | None, figure: Callable[[Row], float | None]
) -> float | None:
    if over is None or under is None:
        return None
    above, below = figure(over), figure(under)
    return above / below if above is not None and below else None
