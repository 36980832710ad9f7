from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sparkdrain.jobs.registry import NoSuchJob, Registry


@dataclass
class Submission:
    job_id: str


@dataclass
class Job:
    job_id: str
    is_running: bool = False
    submission: Submission = field(init=False)

    def __post_init__(self) -> None:
        self.submission = Submission(self.job_id)


def test_the_newest_idle_jobs_are_kept_and_running_ones_always():
    registry = Registry(kept=2)
    busy = Job("busy", is_running=True)
    assert registry.add(busy) == []
    assert registry.add(Job("a")) == []
    assert registry.add(Job("b")) == []
    assert [job.job_id for job in registry.add(Job("c"))] == ["a"]
    assert [job.job_id for job in registry.all()] == ["busy", "b", "c"]
    assert registry.get("busy") is busy


def test_an_unknown_job_is_named_with_the_reasons_why_it_may_be_unknown():
    with pytest.raises(NoSuchJob, match=r"no job 'a' here: .*more than 2 jobs came after it"):
        Registry(kept=2).get("a")
