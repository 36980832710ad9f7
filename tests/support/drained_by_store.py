"""A job is drained through a metadata store: by a record before its start, and while it runs.

A test module imports ``*`` from here, and has a fixture ``backend`` that gives a ``StoreOfKind``.
"""

from __future__ import annotations

import pytest

from sparkdrain.cli.main import main
from sparkdrain.drain import records, runs
from sparkdrain.drain.runs import Run
from sparkdrain.jobs.draining import JobDrain
from sparkdrain.options import JobSettings
from tests.support.waiting import wait_until


class Told:
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.is_drained = False

    def message(self, importance, text) -> None:
        self.messages.append(text)

    def drain_began(self) -> None:
        self.is_drained = True


def begun(backend, job: Told) -> JobDrain:
    run = Run("mine", "job-1", "wc", "", "RUNNING", drain=True, began=0)
    settings = JobSettings(slots=1, metadata_store=backend.address, drain_poll_ms=100)
    drain = JobDrain(run, settings, job, lambda: 5)
    drain.open()
    drain.begin(0)
    return drain


def test_a_job_that_runs_is_listed_and_drained(backend, capsys):
    job = Told()
    drain = begun(backend, job)
    store = f"--metadata_store={backend.text}"
    assert main(["jobs", store]) == 0
    assert "mine" in capsys.readouterr().out
    assert not job.is_drained
    assert main(["drain", "mine", store, "--no-wait"]) == 0
    wait_until(lambda: job.is_drained)
    drain.close("DRAINED")
    handle = backend.open()
    assert [each.state for each in runs.known(handle)] == ["DRAINED"]
    assert records.read(handle, pytest.fail) == []
    handle.close()


def test_a_job_that_was_asked_before_its_start_drains_before_it_reads(backend):
    store = f"--metadata_store={backend.text}"
    assert main(["drain", "mine", store, "--ahead"]) == 0
    assert main(["drain", "another", store, "--ahead"]) == 0
    job = Told()
    drain = begun(backend, job)
    assert job.is_drained
    drain.close("DRAINED")
    handle = backend.open()
    assert [each.run_id for each in records.read(handle, pytest.fail)] == ["another"]
    handle.close()
    assert main(["drain", "another", store, "--withdraw"]) == 0
