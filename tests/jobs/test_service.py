from __future__ import annotations

import threading

import grpc
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.job.utils import dict_to_struct
from fake_engine import FakeEngine, until_cancelled

from sparkdrain.errors import SparkDrainError, Unsupported, UserCodeError
from sparkdrain.invocation import Outcome
from sparkdrain.jobs.calls import ERROR_KIND_KEY
from sparkdrain.jobs.server import KEPT_JOBS
from sparkdrain.jobs.states import name
from sparkdrain.option_table import OPTIONS

PIPELINE = beam_runner_api_pb2.Pipeline(root_transform_ids=["root"])


def prepare(client, pipeline=PIPELINE, job_name="wc", **options) -> str:
    described = dict_to_struct({f"beam:option:{key}:v1": text for key, text in options.items()})
    request = api.PrepareJobRequest(
        job_name=job_name, pipeline=pipeline, pipeline_options=described
    )
    return client.Prepare(request).preparation_id


def run(client, **options) -> str:
    """Runs a job and waits for its end."""
    job_id = client.Run(api.RunJobRequest(preparation_id=prepare(client, **options))).job_id
    path(client, job_id)
    return job_id


def path(client, job_id: str) -> list[str]:
    stream = client.GetStateStream(api.GetJobStateRequest(job_id=job_id))
    return [name(event.state) for event in stream]


def error_of(call) -> tuple[grpc.StatusCode, str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    kinds = dict(caught.value.trailing_metadata())
    return caught.value.code(), caught.value.details(), kinds.get(ERROR_KIND_KEY, "")


def test_a_job_is_prepared_run_and_followed(connect):
    engine = FakeEngine()
    client = connect(engine)
    job_id = prepare(client, slots="3", spark_master_url="local[4]", my_own="x")
    assert job_id.startswith("wc-")
    assert client.GetState(api.GetJobStateRequest(job_id=job_id)).state == api.JobState.STOPPED
    assert client.Run(api.RunJobRequest(preparation_id=job_id)).job_id == job_id
    assert path(client, job_id) == ["STOPPED", "STARTING", "RUNNING", "DONE"]
    (call,) = engine.calls
    assert (call.settings.slots, call.settings.spark_master_url) == (3, "local[4]")
    assert call.pipeline_options == {
        "slots": "3",
        "spark_master_url": "local[4]",
        "my_own": "x",
    }
    assert call.pipeline == PIPELINE


def test_without_a_master_in_the_options_the_default_is_ours(connect, monkeypatch):
    monkeypatch.setattr("sparkdrain.options.spark_is_set_up", lambda environ: False)
    engine = FakeEngine()
    run(connect(engine))
    assert engine.calls[0].settings.spark_master_url == "local[*]"


def test_options_among_the_flags_of_a_go_program_count(connect):
    engine = FakeEngine()
    flags = {
        "checkpoint_dir": "/somewhere",
        "slots": "3",
        "streaming": "true",
        "resume": "required",
        "spark_conf": "spark.task.maxFailures=1",
        "spark_master_url": "local[4]",
        "sdk_worker_parallelism": "0",
        "my_own": "x",
    }
    run(connect(engine), go_options={"options": flags})
    (call,) = engine.calls
    settings = call.settings
    assert (settings.checkpoint_dir, settings.slots) == ("/somewhere", 3)
    assert (settings.streaming, settings.resume) == (True, "required")
    assert settings.spark_conf == (("spark.task.maxFailures", "1"),)
    assert settings.spark_master_url == "local[4]"
    # Go's own harness reads all of them where they were.
    assert call.pipeline_options["go_options"] == {"options": flags}
    assert "my_own" not in call.pipeline_options
    assert call.pipeline_options["sdk_worker_parallelism"] == "0"
    code, details, _ = error_of(
        lambda: prepare(connect(engine), go_options={"options": {"slots": "many"}})
    )
    assert (code, "--slots cannot be 'many'" in details) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        True,
    )


def test_messages_and_states_are_streamed_from_the_first_on(connect):
    client = connect(FakeEngine(lambda call: call.observer.message(3, "hello")))
    job_id = run(client)
    stream = list(client.GetMessageStream(api.JobMessagesRequest(job_id=job_id)))
    shown = [
        response.message_response.message_text or name(response.state_response.state)
        for response in stream
    ]
    assert shown == ["STOPPED", "STARTING", "RUNNING", "hello", "DONE"]


def test_a_stream_that_nobody_reads_any_more_ends_in_the_service(connect):
    before = threading.active_count()
    running = threading.Event()

    def behave(call) -> None:
        running.set()
        until_cancelled(call)

    client = connect(FakeEngine(behave))
    job_id = prepare(client)
    client.Run(api.RunJobRequest(preparation_id=job_id))
    assert running.wait(30)
    streams = [client.GetMessageStream(api.JobMessagesRequest(job_id=job_id)) for _ in range(30)]
    for stream in streams:
        next(stream)
        stream.cancel()
    # Its pool keeps at most 16 idle threads; streams that hung would need 30.
    client.Cancel(api.CancelJobRequest(job_id=job_id))
    assert path(client, job_id)[-1] == "CANCELLED"
    assert threading.active_count() - before < 80


def test_a_running_job_can_be_cancelled(connect):
    running = threading.Event()

    def behave(call) -> None:
        running.set()
        until_cancelled(call)

    client = connect(FakeEngine(behave))
    job_id = prepare(client)
    client.Run(api.RunJobRequest(preparation_id=job_id))
    assert running.wait(30)
    answer = client.Cancel(api.CancelJobRequest(job_id=job_id))
    assert answer.state in {api.JobState.CANCELLING, api.JobState.CANCELLED}
    assert path(client, job_id)[-2:] == ["CANCELLING", "CANCELLED"]


def test_metrics_are_attempted_and_committed_ones(connect):
    attempted = monitoring_infos.int64_user_counter("ns", "n", 5)
    committed = monitoring_infos.int64_user_counter("ns", "n", 3)
    client = connect(FakeEngine(lambda call: Outcome([attempted], [committed])))
    prepared = prepare(client)
    empty = client.GetJobMetrics(api.GetJobMetricsRequest(job_id=prepared)).metrics
    assert not empty.attempted
    assert not empty.committed
    metrics = client.GetJobMetrics(api.GetJobMetricsRequest(job_id=run(client))).metrics
    assert list(metrics.attempted) == [attempted]
    assert list(metrics.committed) == [committed]


def fails(call) -> None:
    message = "ValueError: bad row [while running 'Parse']"
    raise UserCodeError(message)


@pytest.mark.parametrize(
    ("behave", "end"), [(fails, "FAILED"), (until_cancelled, "CANCELLED")], ids=["fails", "goes on"]
)
def test_what_was_attempted_is_told_of_a_job_that_runs_fails_or_is_cancelled(connect, behave, end):
    attempted = monitoring_infos.int64_user_counter("ns", "n", 5)
    counted = threading.Event()

    def counting(call) -> None:
        call.observer.counting(lambda: [attempted])
        counted.set()
        behave(call)

    client = connect(FakeEngine(counting))
    job_id = client.Run(api.RunJobRequest(preparation_id=prepare(client))).job_id
    assert counted.wait(30)

    def metrics():
        return client.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics

    assert list(metrics().attempted) == [attempted]
    client.Cancel(api.CancelJobRequest(job_id=job_id))
    assert path(client, job_id)[-1] == end
    assert list(metrics().attempted) == [attempted]
    assert not metrics().committed


def test_the_pipeline_and_the_list_of_jobs_can_be_asked_for(connect):
    client = connect(FakeEngine())
    job_id = run(client, my_own="x")
    answer = client.GetPipeline(api.GetJobPipelineRequest(job_id=job_id))
    assert answer.pipeline == PIPELINE
    (info,) = client.GetJobs(api.GetJobsRequest()).job_info
    assert (info.job_id, info.job_name, info.state) == (job_id, "wc", api.JobState.DONE)
    assert info.pipeline_options["beam:option:my_own:v1"] == "x"


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.Run(api.RunJobRequest(preparation_id="x")),
        lambda client: client.GetState(api.GetJobStateRequest(job_id="x")),
        lambda client: client.GetPipeline(api.GetJobPipelineRequest(job_id="x")),
        lambda client: client.Cancel(api.CancelJobRequest(job_id="x")),
        lambda client: client.Drain(api.DrainJobRequest(job_id="x")),
        lambda client: client.GetJobMetrics(api.GetJobMetricsRequest(job_id="x")),
        lambda client: list(client.GetStateStream(api.GetJobStateRequest(job_id="x"))),
        lambda client: list(client.GetMessageStream(api.JobMessagesRequest(job_id="x"))),
    ],
)
def test_every_call_answers_not_found_for_a_job_that_is_unknown(connect, ask):
    client = connect(FakeEngine())
    code, details, kind = error_of(lambda: ask(client))
    assert (code, kind) == (grpc.StatusCode.NOT_FOUND, "NoSuchJob")
    assert details.startswith("There is no job 'x' here")


def test_what_cannot_run_is_refused_when_it_is_prepared(connect):
    engine = FakeEngine()
    engine.refuse = Unsupported("'Read' has URN beam:x, which ...")
    client = connect(engine)
    code, details, kind = error_of(lambda: prepare(client))
    assert (code, kind) == (grpc.StatusCode.FAILED_PRECONDITION, "Unsupported")
    assert details == "'Read' has URN beam:x, which ..."
    assert not client.GetJobs(api.GetJobsRequest()).job_info


def test_a_bad_option_is_refused_when_the_job_is_prepared(connect):
    client = connect(FakeEngine())
    code, details, kind = error_of(lambda: prepare(client, slots="many"))
    assert (code, kind) == (grpc.StatusCode.INVALID_ARGUMENT, "BadOption")
    assert "--slots cannot be 'many'" in details


def test_a_very_long_error_in_any_alphabet_still_arrives(connect):
    engine = FakeEngine()
    engine.refuse = SparkDrainError("é" * 100_000)
    code, details, _ = error_of(lambda: prepare(connect(engine)))
    assert code == grpc.StatusCode.INTERNAL
    assert "characters left out" in details


def test_a_job_that_ran_cannot_be_run_again(connect):
    client = connect(FakeEngine())
    job_id = run(client)
    code, details, _ = error_of(lambda: client.Run(api.RunJobRequest(preparation_id=job_id)))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert details == "A job cannot become STARTING after STOPPED -> STARTING -> RUNNING -> DONE."


def test_options_are_described_as_the_table_has_them(connect):
    request = api.DescribePipelineOptionsRequest()
    described = connect(FakeEngine()).DescribePipelineOptions(request).options
    assert [option.name for option in described] == [option.name for option in OPTIONS]
    by_name = {option.name: option for option in described}
    assert by_name["slots"].type == api.PipelineOptionType.INTEGER
    assert by_name["spark_conf"].type == api.PipelineOptionType.ARRAY
    assert by_name["compiled_stages"].default_value == "on"
    assert all(option.description and option.group for option in described)


def test_old_jobs_are_forgotten(connect):
    client = connect(FakeEngine())
    first = run(client)
    for _ in range(KEPT_JOBS):
        prepare(client)
    code, _, _ = error_of(lambda: client.GetState(api.GetJobStateRequest(job_id=first)))
    assert code == grpc.StatusCode.NOT_FOUND


def test_a_job_name_never_leads_out_of_the_directory_for_files(connect):
    job_id = prepare(connect(FakeEngine()), job_name="../../etc/é x")
    assert set(job_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert prepare(connect(FakeEngine()), job_name="").startswith("job-")


def test_large_pipelines_are_taken(connect):
    pipeline = beam_runner_api_pb2.Pipeline(root_transform_ids=["x" * (8 << 20)])
    assert prepare(connect(FakeEngine()), pipeline)
