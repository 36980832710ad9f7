"""One job on every runner of a plan: first the settings of each peer compete, then turns begin."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from benchmarks.lane import Lane, Log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.jobs import Job
    from benchmarks.plan import Plan
    from benchmarks.rows import Row
    from benchmarks.runners import Runner


def measure_job(job: Job, plan: Plan, log: Log) -> list[Row]:
    """A row for each setting of each peer.

    Every setting has one timed run. The fastest setting of a peer has all the runs of the plan, in
    turns with those of the other peers.
    """
    best: list[Lane] = []
    rows: list[Row] = []
    runners = plan.runners_of(job)
    try:
        for _, settings in groupby(runners, key=_family):
            found, others = fastest([Lane(job, runner, plan, log) for runner in settings])
            best.append(found)
            rows += others
        for turn in range(1, plan.runs):
            for i in range(len(best)):
                best[(i + turn) % len(best)].run()
    finally:
        for lane in best:
            lane.close()
    rows += [lane.row() for lane in best]
    rows.sort(key=lambda row: [runner.name for runner in runners].index(row.runner))
    for row in rows:
        log({"event": "row", **asdict(row), "rate": row.rate})
    return rows


def fastest(lanes: Sequence[Lane]) -> tuple[Lane, list[Row]]:
    """The lane whose first run was the fastest, still open; and the rows of the others."""
    best, others = lanes[0], []
    for lane in lanes:
        try:
            lane.open()
            lane.run()
        except BaseException:
            best.close()
            lane.close()
            raise
        if lane is best:
            continue
        if (lane.row().rate or 0.0) > (best.row().rate or 0.0):
            best, lane = lane, best  # noqa: PLW2901 - the slower one of the two ends
        lane.close()
        others.append(lane.row(outdone=True))
    return best, others


def _family(runner: Runner) -> str:
    return runner.family
