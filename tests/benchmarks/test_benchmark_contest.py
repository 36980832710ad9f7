"""A peer's settings compete: the fastest goes on, the others end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.contest import fastest
from benchmarks.dataflows.arrangement import Arrangement
from benchmarks.jobs import JOBS, job_named
from benchmarks.page import sizes
from benchmarks.page.parts import PARTS
from benchmarks.page.place import put
from benchmarks.plan import ROOT, Plan
from benchmarks.rows import Row
from benchmarks.runners import RUNNERS


@dataclass
class StandInLane:
    """A lane whose run takes so many seconds, or fails."""

    seconds: float
    problem: str = ""
    calls: list[str] = field(default_factory=list)

    def open(self) -> None:
        self.calls.append("open")

    def run(self) -> None:
        self.calls.append("run")

    def close(self) -> None:
        self.calls.append("close")

    def row(self, *, outdone: bool = False) -> Row:
        row: dict[str, Any] = {"job": "job", "runner": str(self.seconds), "family": "peer"}
        times = {"seconds": [self.seconds], "cpu": [1.0], "loads": [0.0]}
        return Row(**row, n=10, elements=10, problem=self.problem, outdone=outdone, **times)


def test_the_fastest_setting_stays_open_and_the_others_end_after_one_run() -> None:
    lanes = [StandInLane(3.0), StandInLane(1.0), StandInLane(2.0)]
    best, others = fastest(lanes)
    assert best is lanes[1]
    assert best.calls == ["open", "run"]
    assert [lane.calls for lane in (lanes[0], lanes[2])] == [["open", "run", "close"]] * 2
    assert [(row.runner, row.outdone) for row in others] == [("3.0", True), ("2.0", True)]


def test_a_setting_that_fails_never_counts_while_another_one_runs() -> None:
    lanes = [StandInLane(1.0, "FAILED: no end"), StandInLane(9.0)]
    assert fastest(lanes)[0] is lanes[1]


def test_settings_that_gain_rate_by_delay_are_no_match_for_a_clock() -> None:
    latency, state = job_named("stream-latency"), job_named("stream-state")
    delaying = [runner for runner in RUNNERS if runner.delays]
    assert delaying
    assert not any(runner.takes(latency) for runner in delaying)
    assert all(runner.takes(state) for runner in delaying)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_that_are_apart_read_every_shard_once(count: int) -> None:
    arrangement = Arrangement(processes=count, apart=True)
    parts = [list(range(8))[arrangement.part(number)] for number in range(count)]
    assert sorted(shard for part in parts for shard in part) == list(range(8))


def test_processes_that_exchange_all_read_the_whole_source() -> None:
    assert list(range(8))[Arrangement(processes=2).part(1)] == list(range(8))


def test_every_share_of_the_page_is_of_a_peer_that_the_job_has() -> None:
    families = {runner.family for runner in RUNNERS}
    for job in (*sizes.STREAMS, *sizes.BATCH, *sizes.CLOCK, *JOBS):
        assert set(job.shares) <= families & set(job.peers), job.name
        assert set(job.bars) <= families, job.name


def test_a_setting_with_micro_batches_gets_five_of_them_or_more(tmp_path) -> None:
    plan = Plan(RUNNERS, 1, 1.0, 1.0, tmp_path, {})
    batched = [runner for runner in RUNNERS if runner.rows]
    for job in (*sizes.STREAMS, *JOBS):
        for runner in batched if batched[0].takes(job) else ():
            assert plan.size(job, runner) >= 5 * runner.rows, (job.name, runner.name)
            assert plan.size(job, runner) == round(plan.share(job, runner) * job.size)


def test_the_page_has_a_place_for_every_part_and_keeps_what_is_around_it(tmp_path) -> None:
    page = tmp_path / "page.md"
    before = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    page.write_text(before, encoding="utf-8")
    for name in PARTS:
        put(page, name, f"new {name}")
        put(page, name, f"newer {name}")
    after = page.read_text(encoding="utf-8")
    assert [f"newer {name}" in after for name in PARTS] == [True] * len(PARTS)
    assert after.count("<!-- ") == before.count("<!-- ")
    assert after.startswith("# Benchmarks")
    assert after.splitlines()[-1] == before.splitlines()[-1]


def test_a_page_without_the_place_is_named(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the place '<!-- batch:"):
        put(page, "batch", "new")
