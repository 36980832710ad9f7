"""The jobs of this runner, in turns with an older checkout: has anything become slower?

Run: ``python -m benchmarks.turns [--only JOBS] [--pairs N] [--scale S] CHECKOUT``. A job has a warm
session of each checkout. The two run it in pairs, one run at a time; who is first in a pair is
second in the next. What the machine does beside touches both runs of a pair alike, so the median
of the pairs' ratios is steadier than the ratio of two medians. Prints, for each job: the median
seconds, that ratio for elements per second and for CPU time, and the peak of memory. Both use this
Python, so the other checkout must need the same packages.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.choice import chosen
from benchmarks.jobs import JOBS, KAFKA, Job, job_named
from benchmarks.lane import Lane
from benchmarks.plan import OWN, ROOT, Plan
from benchmarks.runners import OURS, runner_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.rows import Row

_LIMIT = 900.0
_HEAD = """\
| job | n | pairs | seconds here | seconds there | rate | CPU time | peak RSS here, there (MB) |
|---|---|---|---|---|---|---|---|"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a run failed or had a wrong result, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = ",".join(job.name for job in JOBS)
    known = [job.name for job in (*JOBS, *KAFKA)]
    parser.add_argument("--only", default=usual, help=f"of {','.join(known)}")
    parser.add_argument("--pairs", type=int, default=5, help="timed runs of each checkout")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every n")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="generated text")
    parser.add_argument("checkout", type=Path, help="to compare with")
    asked = parser.parse_args(arguments)
    names = chosen(parser, "--only", asked.only, known)
    runner = runner_named(OURS)
    cache = asked.cache.absolute()
    here = Plan((runner,), asked.pairs, asked.scale, _LIMIT, cache, {runner.needs: OWN})
    there = replace(here, checkout=asked.checkout.resolve())
    print(_HEAD, flush=True)
    problems = [_compare(job_named(name), here, there) for name in names]
    return int(any(problems))


def _compare(job: Job, *plans: Plan) -> str:
    """Print the row of a job; what went wrong, if anything did."""
    lanes = [Lane(job, plan.runners[0], plan, lambda _: None) for plan in plans]
    try:
        for lane in lanes:
            lane.open()
        for pair in range(plans[0].runs):
            for lane in reversed(lanes) if pair % 2 else lanes:
                lane.run()
    finally:
        for lane in lanes:
            lane.close()
    here, there = (lane.row() for lane in lanes)
    problem = here.problem or there.problem
    print(f"| {job.name} | {problem} |" if problem else _row(here, there), flush=True)
    return problem


def _row(here: Row, there: Row) -> str:
    rate = _ratio(there.seconds, here.seconds)
    cpu = _ratio(here.cpu, there.cpu)
    peaks = ", ".join(f"{row.peak_rss / 1e6:,.0f}" for row in (here, there))
    seconds = [f"{median(row.seconds):.2f}" for row in (here, there)]
    cells = [here.job, f"{here.n:,}", str(len(here.seconds)), *seconds]
    return f"| {' | '.join(cells)} | {rate:.3f} | {cpu:.3f} | {peaks} |"


def _ratio(ours: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of the runs that were a pair."""
    return median(one / other for one, other in zip(ours, others, strict=True))


if __name__ == "__main__":
    sys.exit(main())
