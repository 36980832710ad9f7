from __future__ import annotations

import argparse
import io
import threading
from typing import TYPE_CHECKING

import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.job.utils import dict_to_struct
from fake_engine import FakeEngine, until_cancelled, until_drained
from rich.console import Console

from sparkdrain.cli import drain, drain_by_store
from sparkdrain.cli.main import main
from sparkdrain.drain import records, runs
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.progress import Left, advanced, began
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from sparkdrain.invocation import Outcome


def cli(*arguments: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    drain.add_arguments(parser)
    written = io.StringIO()
    code = drain.drain(parser.parse_args(arguments), Console(file=written, width=1000))
    return code, written.getvalue()


def telling(call) -> Outcome:
    """Tells of its progress, and answers what is inside."""
    progress = advanced(began("x", 0), 1, [Left("Read", 1, 1), Left("Group", 2, 0, 5, 1200)], [])
    inquiry = call.drain.inquiry
    inquiry.on_ask(lambda: inquiry.answer(inquiry.wanted(), progress))
    ready.release()
    outcome = until_drained(call)
    call.observer.draining(progress)
    return outcome


ready = threading.Semaphore(0)


@pytest.fixture
def start(serve, address):
    """Starts a job of a service of its own, and answers its id and the endpoint."""

    def run(behave, job_name="wc", server=None, **options):
        server = server or serve(FakeEngine(behave), "localhost:0")
        described = {"metadata_store": address, "drain_poll_ms": "5", **options}
        prepared = server.service.Prepare(
            api.PrepareJobRequest(
                job_name=job_name,
                pipeline=beam_runner_api_pb2.Pipeline(),
                pipeline_options=dict_to_struct(
                    {f"beam:option:{key}:v1": text for key, text in described.items()}
                ),
            ),
            None,
        )
        server.service.Run(api.RunJobRequest(preparation_id=prepared.preparation_id), None)
        if behave is telling:
            assert ready.acquire(timeout=30)
        # The store knows a job from when it is RUNNING.
        wait_until(lambda: server.jobs()[-1].state.state != api.JobState.STARTING)
        return prepared.preparation_id, server

    return run


def test_a_job_is_drained_by_its_id_or_its_name_and_followed_to_its_end(start):
    for by_name in (True, False):
        job, server = start(telling)
        code, said = cli("wc" if by_name else job, "--job_endpoint", server.endpoint)
        assert code == 0, said
        assert said.startswith(f"Job {job} is DRAINING.\n")
        assert "Drain: 1 of 2 stages are drained; 5 windows, 1,200 timers left." in said
        assert said.endswith(f"Job {job} is DRAINED.\n")


def test_a_run_is_drained_through_the_store_and_followed_to_its_end(start, address):
    job, _ = start(telling)
    code, said = cli("wc", "--metadata_store", address)
    assert code == 0, said
    assert f"The run {job} is RUNNING, and was asked to drain (notification " in said
    assert said.endswith(f"The run {job} is DRAINED.\n")


def test_how_it_goes_on_is_told_through_the_store_too_if_the_service_is_within_reach(
    start, address
):
    job, server = start(telling)
    code, said = cli("wc", "--metadata_store", address)
    assert code == 0
    assert "Drain: 1 of 2 stages are drained; 5 windows, 1,200 timers left" in said
    assert said.endswith(f"The run {job} is DRAINED.\n")
    assert server.jobs()[0].story.wait(30)


def test_a_run_whose_service_is_out_of_reach_is_waited_for_all_the_same(store, address):
    far = runs.Run("far", "far", "wc", "localhost:1", "RUNNING", drain=True, began=1)
    runs.begin(store, far)
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        runs.tell(store, far, "DRAINED")

    assert drain_by_store.follow(store, "far", sleep, pytest.fail) == "DRAINED"
    assert waited


def test_one_may_ask_and_not_wait(start, store, address):
    may_end = threading.Event()

    def behave(call):
        outcome = until_drained(call)
        assert may_end.wait(60)
        return outcome

    job, server = start(behave)
    for where in (("--job_endpoint", server.endpoint), ("--metadata_store", address)):
        assert cli(job, *where, "--no-wait")[0] == 0
    assert len(records.read(store, pytest.fail)) == 1
    may_end.set()
    assert cli(job, "--job_endpoint", server.endpoint)[0] == 0


def test_a_dry_run_tells_what_is_inside_and_drains_nothing(start, store, address):
    job, server = start(telling)
    for where in (("--job_endpoint", server.endpoint), ("--metadata_store", address)):
        code, said = cli("wc", *where, "--dry-run")
        assert code == 0, said
        assert said == (
            "A drain would find 5 windows, 1,200 timers inside.\n"
            "  Read: nothing\n"
            "  Group: 5 windows, 1,200 timers\n"
        )
    assert records.read(store, pytest.fail) == []
    assert runs.find(store, job).state == "RUNNING"


def test_a_job_that_is_over_is_told_so(start, address):
    job, server = start(lambda call: None)
    assert server.jobs()[0].story.wait(30)
    assert cli(job, "--job_endpoint", server.endpoint) == (0, f"Job {job} is DONE.\n")
    assert cli(job, "--metadata_store", address) == (0, f"The run {job} is DONE.\n")
    code, said = cli(job, "--metadata_store", address, "--dry-run")
    assert (code, said) == (0, f"The run {job} is DONE: there is nothing inside.\n")


def test_a_job_that_fails_while_it_drains_is_no_success(start, address):
    def fail(call):
        until_drained(call)
        return 1 / 0

    job, server = start(fail)
    assert cli(job, "--job_endpoint", server.endpoint)[0] == 1
    assert cli(job, "--metadata_store", address) == (1, f"The run {job} is FAILED.\n")


@pytest.mark.parametrize("where", ["service", "store"])
def test_a_job_that_nobody_knows_is_told_with_those_that_are_known(start, address, store, where):
    job, server = start(telling)
    at = ("--job_endpoint", server.endpoint)
    code, said = cli("wordcount", *(at if where == "service" else ("--metadata_store", address)))
    assert code == 1
    assert "'wordcount'" in said
    assert f"It knows: {job} (RUNNING)." in said
    assert records.read(store, pytest.fail) == []


def test_of_two_jobs_of_one_name_one_must_be_chosen(start):
    first, server = start(telling)
    second, _ = start(telling, server=server)
    code, said = cli("wc", "--job_endpoint", server.endpoint)
    assert code == 1
    assert f"2 jobs are called 'wc' at this service. It knows: {first} (RUNNING), {second}" in said


def test_a_job_that_must_not_be_drained_says_so(start, address):
    job, server = start(until_cancelled, drain="off")
    for where in (("--job_endpoint", server.endpoint), ("--metadata_store", address)):
        code, said = cli(job, *where)
        assert code == 1
        assert "it was started with --drain=off" in said


def test_a_run_can_be_told_to_drain_before_it_starts_and_that_can_be_withdrawn(
    start, store, address
):
    code, said = cli("mine", "--metadata_store", address, "--ahead")
    assert code == 0
    (asked,) = records.read(store, pytest.fail)
    assert said == f"The run mine will drain when it starts ({asked.id}).\n"
    cli("other", "--metadata_store", address, "--ahead")
    code, said = cli("other", "--metadata_store", address, "--withdraw")
    assert (code, said) == (0, "Removed 1 requests for the run other.\n")
    code, said = cli("other", "--metadata_store", address, "--withdraw")
    assert code == 1
    assert "There is no run 'other' in this store" in said
    job, server = start(until_drained, run_id="mine")
    assert server.jobs()[0].story.wait(30)
    assert runs.find(store, job).state == "DRAINED"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((" ", "--job_endpoint=x:1"), "JOB is blank"),
        (("x", "--metadata_store=memory:"), "is inside of the process that runs the job"),
        (("x", "--metadata_store=file:/nowhere/at/all"), "There is no metadata store in /nowhere"),
        (("x", "--metadata_store=files:/x"), "Did you mean file:/x?"),
        (("x", "--checkpoint_dir=gs://x/y"), "is inside of the process that runs the job"),
        (("x", "--checkpoint_dir=/nowhere"), "There is no metadata store in /nowhere/@runs"),
        (("x", "--job_endpoint=y:1", "--ahead"), "give --metadata_store or --checkpoint_dir"),
        ((" ", "--metadata_store=file:/x", "--ahead"), "JOB is blank"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(arguments, told):
    code, said = cli(*arguments)
    assert code == 1
    assert told in said
    assert said.count("\n") == 1


def test_a_service_that_does_not_answer_is_told_of(monkeypatch):
    monkeypatch.setattr("sparkdrain.cli.drain_by_service._SECONDS", 0.1)
    code, said = cli("x", "--job_endpoint", "localhost:1")
    assert (code, said) == (1, "No job service answers at localhost:1 within 0.1 s.\n")


def test_where_the_job_is_must_be_said(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["drain", "wc"])
    assert caught.value.code == 2
    assert "--job_endpoint --metadata_store --checkpoint_dir is required" in capsys.readouterr().err


def test_it_is_a_command_of_its_own(python, address):
    ended = python("-m", "sparkdrain.cli.main", "drain", "x", "--metadata_store", address)
    assert ended.returncode == 1, ended.stderr
    assert "There is no metadata store in" in ended.stdout


def test_a_request_is_withdrawn_by_the_name_of_the_job_too(start, store, address):
    job, _ = start(until_cancelled)
    records.write(store, notification := DrainNotification.create(job, 1))
    assert records.read(store, pytest.fail) == [notification]
    assert cli("wc", "--metadata_store", address, "--withdraw")[0] == 0
    assert records.read(store, pytest.fail) == []


def test_a_job_that_was_given_no_store_is_found_beside_its_checkpoints(start, tmp_path):
    kept = str(tmp_path / "checkpoints")
    job, server = start(
        until_drained, metadata_store="auto", checkpoint_dir=kept, drain_poll_ms="5"
    )
    code, said = cli("wc", "--checkpoint_dir", kept)
    assert (code, said.splitlines()[-1]) == (0, f"The run {job} is DRAINED.")
    assert server.jobs()[0].story.wait(30)
