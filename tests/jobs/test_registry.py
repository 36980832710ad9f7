from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparkdrain.jobs.served import NoSuchJob, Registry


@dataclass
class Job:
    is_running: bool = False


def test_the_newest_idle_jobs_are_kept_and_running_ones_always():
    registry = Registry(kept=2)
    busy, b, c = Job(is_running=True), Job(), Job()
    assert registry.add("busy", busy) == {}
    assert registry.add("a", Job()) == {}
    assert registry.add("b", b) == {}
    assert list(registry.add("c", c)) == ["a"]
    assert list(map(id, registry.all())) == list(map(id, [busy, b, c]))
    assert registry.get("busy") is busy


def test_an_unknown_job_is_named_with_the_reasons_why_it_may_be_unknown():
    with pytest.raises(NoSuchJob, match=r"no job 'a' here: .*more than 2 jobs came after it"):
        Registry(kept=2).get("a")
