"""Every job, small, on Beam's in-process runner and by hand in plain Python: do checks agree?"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.jobs import JOBS, STARTUP, Job, job_module
from benchmarks.jobs.outside import OUTSIDE
from benchmarks.jobs.work import Work
from benchmarks.runners import run_pipeline
from benchmarks.text import make_text, word_counts


def small(job: Job, tmp_path: Path) -> Work:
    n = 1 if job.of_text else 500
    text = make_text(tmp_path / "text", n) if job.of_text else Path()
    out = tmp_path / "out"
    out.mkdir()
    return Work(n, job.keys_for(n), text, out)


@pytest.mark.parametrize("job", [STARTUP, *JOBS, *OUTSIDE], ids=lambda job: job.name)
def test_the_pipeline_gives_what_the_job_expects(job: Job, tmp_path: Path) -> None:
    work = small(job, tmp_path)
    seconds, result = run_pipeline(["--runner=FnApiRunner"], job, work)
    assert result == job_module("jobs", job).expected(work)
    assert seconds > 0


@pytest.mark.parametrize(
    "job", [j for j in (*JOBS, *OUTSIDE) if not j.of_text], ids=lambda job: job.name
)
def test_an_element_or_a_key_less_is_noticed(job: Job, tmp_path: Path) -> None:
    expected = job_module("jobs", job).expected
    first = Work(3000, job.keys_for(3000), Path(), tmp_path)
    # A stream has as many elements of each key: there a key less is the least.
    keys = job.keys_for(3000) - 1 if job.streaming and job.per_key else job.keys_for(3000)
    second = Work(2999, max(1, keys), Path(), tmp_path)
    assert expected(first) != expected(second)


def test_the_text_is_the_same_every_time_and_its_counts_are_right(tmp_path: Path) -> None:
    first, second = make_text(tmp_path / "a", 1), make_text(tmp_path / "b", 1)
    assert first.read_bytes() == second.read_bytes()
    assert 1_000_000 <= first.stat().st_size < 1_200_000
    words = first.read_text().split()
    counts = word_counts(first)
    assert sum(counts.values()) == len(words)
    assert counts[words[0]] == words.count(words[0])
