"""A second start of a job that runs: on a real Spark, with a store on disk and the command line."""

from __future__ import annotations

import time

import pytest
from apache_beam.runners.runner import PipelineState
from test_drain_on_spark import SECONDS, check, cli, start, until_it_reads

from sparkdrain.drain import records, runs
from sparkdrain.errors import CheckpointRefused

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.fixture
def flags(tmp_path, address):
    checkpoints = (f"--checkpoint_dir={tmp_path}/checkpoints", "--checkpoint_ms=300")
    return ("--job_name=numbers", f"--metadata_store={address}", *checkpoints)


def known(store) -> list[tuple[str, str, str]]:
    return [(run.run_id, run.job_id, run.state) for run in runs.known(store)]


def until_a_checkpoint(tmp_path) -> None:
    end = time.monotonic() + SECONDS
    while not list(tmp_path.glob("checkpoints/numbers/manifests/*/*.manifest")):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def living(folder, tmp_path, store, flags):
    """A job that runs, and a second start of which was refused."""
    first = start(folder, *flags)
    until_it_reads(folder)
    until_a_checkpoint(tmp_path)
    before = store.all(runs.NAMESPACE)
    for more in ((), ("--run_id=mine",), (f"--run_id={first.job_id}",)):
        with pytest.raises(CheckpointRefused, match="Give --resume"):
            start(folder, *flags, *more).wait_until_finish()
    assert store.all(runs.NAMESPACE) == before
    assert known(store) == [(first.job_id, first.job_id, "RUNNING")]
    return first


def test_the_running_job_is_drained_by_its_name_after_another_start_was_refused(
    living, folder, address
):
    code, out = cli("numbers", "--metadata_store", address)
    assert code == 0, out
    assert out.endswith(f"The run {living.job_id} is DRAINED.\n")
    assert living.wait_until_finish() == PipelineState.DRAINED
    check(folder)


def test_who_resumes_it_takes_up_its_run_and_is_drained_by_its_id(
    living, folder, store, address, flags
):
    living.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        living.wait_until_finish()
    again = start(folder, *flags, "--resume")
    while again.state == PipelineState.STARTING:
        time.sleep(0.05)
    assert known(store) == [(living.job_id, again.job_id, "RUNNING")]
    code, out = cli(living.job_id, "--metadata_store", address)
    assert code == 0, out
    assert out.endswith(f"The run {living.job_id} is DRAINED.\n")
    assert again.wait_until_finish() == PipelineState.DRAINED
    assert records.read(store, pytest.fail) == []
