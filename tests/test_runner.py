from __future__ import annotations

import logging
import os
import signal
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.metrics import Metrics, MetricsFilter, monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.runner import PipelineState
from apache_beam.testing.util import assert_that, equal_to
from fake_engine import FakeEngine, until_cancelled

from sparkdrain import SparkDrainRunner
from sparkdrain.errors import BadOption, BadSetup, Cancelled, Unsupported, UserCodeError
from sparkdrain.invocation import Outcome
from sparkdrain.own_folder import own_room
from sparkdrain.spark_master import beam_default_master
from tests.support.calls import calls_of


def start(*flags: str, build=lambda p: p | beam.Create([1]), **keywords):
    """Submits a small pipeline."""
    options = PipelineOptions(["--runner=SparkDrainRunner", *flags], **keywords)
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    return pipeline.run()


@pytest.fixture
def running(in_process):
    """An engine whose job goes on until it is cancelled."""
    started = threading.Event()

    def behave(call) -> None:
        started.set()
        until_cancelled(call)

    engine = in_process(FakeEngine(behave))
    engine.started = started
    return engine


class TestARealPipeline:
    def test_runs_and_ends_as_done(self, beams_engine):
        with beam.Pipeline(runner=SparkDrainRunner()) as pipeline:
            sums = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.CombinePerKey(sum)
            assert_that(sums, equal_to([("a", 4), ("b", 2)]))
        assert pipeline.result.state == PipelineState.DONE

    def test_is_submitted_as_it_is_with_nothing_lifted_or_fused(self, beams_engine):
        with beam.Pipeline(runner=SparkDrainRunner()) as pipeline:
            _ = pipeline | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
        (call,) = beams_engine.calls
        urns = {transform.spec.urn for transform in call.pipeline.components.transforms.values()}
        assert "beam:transform:combine_per_key:v1" in urns
        assert not any("precombine" in urn for urn in urns)

    def test_has_the_embedded_environment_unless_another_is_asked_for(self, in_process):
        engine = in_process(FakeEngine())
        start().wait_until_finish()
        flags = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")
        start(*flags).wait_until_finish()
        urns = [
            {environment.urn for environment in call.pipeline.components.environments.values()}
            for call in engine.calls
        ]
        assert urns == [{"beam:env:embedded_python:v1"}, {"beam:env:external:v1"}]

    def test_that_fails_raises_the_users_own_exception_first(self, beams_engine):
        def parse(row):
            message = f"bad row {row}"
            raise ValueError(message)

        with pytest.raises(RuntimeError) as caught, beam.Pipeline(runner=SparkDrainRunner()) as p:
            _ = p | beam.Create([7]) | "Parse" >> beam.Map(parse)
        assert str(caught.value).startswith("ValueError: bad row 7 [while running 'Parse']\n")
        assert "in parse" in str(caught.value)

    def test_has_attempted_and_committed_metrics(self, beams_engine):
        def count(element):
            Metrics.counter("ns", "seen").inc(element)
            return element

        result = start(build=lambda p: p | beam.Create([1, 2, 3]) | "Count" >> beam.Map(count))
        result.wait_until_finish()
        (counter,) = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
        assert (counter.attempted, counter.committed) == (6, 6)
        assert counter.key.step == "Count"


class TestOptions:
    def test_arrive_at_the_engine_checked(self, in_process):
        engine = in_process(FakeEngine())
        start("--slots=3", "--spark_conf=spark.a=1", "--spark_master_url=local[4]")
        start(slots=5).wait_until_finish()
        given, defaults = (call.settings for call in engine.calls)
        assert (given.slots, given.spark_conf) == (3, (("spark.a", "1"),))
        assert given.spark_master_url == beam_default_master()
        assert (defaults.slots, defaults.spark_master_url) == (5, "local[*]")

    def test_of_other_classes_and_of_the_program_arrive_too(self, in_process):
        engine = in_process(FakeEngine())
        start("--experiments=allow_unknown_options", "--mine=x", "--save_main_session")
        start(job_name="my-job").wait_until_finish()
        first, second = (call.pipeline_options for call in engine.calls)
        assert first["mine"] == "x"
        assert first["save_main_session"] is True
        assert second["job_name"] == "my-job"
        assert engine.calls[1].job_name == "my-job"

    def test_that_are_no_plain_data_are_left_out_with_a_warning(self, in_process, caplog):
        engine = in_process(FakeEngine())
        start(experiments=["allow_unknown_options"], odd={1, 2}).wait_until_finish()
        assert "odd" not in engine.calls[0].pipeline_options
        assert "Option odd is not sent to workers" in caplog.text

    @pytest.mark.parametrize(
        ("flag", "says"),
        [
            ("--slotz=3", "Did you mean --slots"),
            ("--slots=many", "--slots cannot be 'many'"),
            ("--spark_rest_url=http://h", "--spark_rest_url has no effect"),
        ],
    )
    def test_that_are_wrong_stop_before_anything_is_submitted(self, in_process, flag, says):
        engine = in_process(FakeEngine())
        with pytest.raises(BadOption, match=says):
            start(flag)
        assert engine.calls == []

    def test_of_the_test_runner_are_none_of_ours(self, in_process, monkeypatch):
        in_process(FakeEngine())
        monkeypatch.setattr("sys.argv", ["/bin/pytest", "-q", "--slow"])
        pipeline = beam.Pipeline(runner=SparkDrainRunner(), options=PipelineOptions())
        _ = pipeline | beam.Create([1])
        assert pipeline.run().wait_until_finish() == PipelineState.DONE


class TestRefusals:
    def test_what_cannot_run_is_refused_by_run_itself(self, in_process):
        engine = in_process(FakeEngine())
        engine.refuse = Unsupported("'Read' has URN x; use y")
        with pytest.raises(Unsupported, match="'Read' has URN x; use y"):
            start()
        assert engine.calls == []

    def test_keys_without_a_deterministic_coder_are_refused(self, in_process):
        class Shaky(beam.coders.Coder):
            def encode(self, value):
                return repr(value).encode()

            def decode(self, encoded):
                return encoded

            def is_deterministic(self):
                return False

            def to_type_hint(self):
                return Key

        class Key:
            pass

        beam.coders.registry.register_coder(Key, Shaky)

        pairs = beam.Map(lambda n: (Key(), n)).with_output_types(tuple[Key, int])

        def keyed(*flags):
            group = "Group" >> beam.GroupByKey()
            return start(*flags, build=lambda p: p | beam.Create([1]) | pairs | group)

        engine = in_process(FakeEngine())
        with pytest.raises(ValueError, match=r"cannot be made deterministic for 'Group'"):
            keyed()
        assert engine.calls == []
        keyed("--allow_non_deterministic_key_coders").wait_until_finish()
        assert len(engine.calls) == 1

    def test_a_job_endpoint_where_nobody_answers_is_named(self):
        with pytest.raises(BadSetup, match=r"--job_endpoint=localhost:1 within 1 s"):
            start("--job_endpoint=localhost:1", "--job_server_timeout=1")


class TestWaiting:
    def test_with_a_limit_ends_with_the_state_then(self, running):
        result = start()
        assert running.started.wait(30)
        assert result.wait_until_finish(duration=1) == PipelineState.RUNNING
        result.cancel()
        with pytest.raises(Cancelled):
            result.wait_until_finish()

    def test_again_gives_the_same_answer(self, in_process):
        in_process(FakeEngine())
        result = start()
        assert [result.wait_until_finish() for _ in range(2)] == [PipelineState.DONE] * 2

        def fail(call):
            message = "ValueError: x"
            raise UserCodeError(message)

        in_process(FakeEngine(fail))
        result = start()
        for _ in range(2):
            with pytest.raises(UserCodeError, match="ValueError: x"):
                result.wait_until_finish()
        assert result.state == PipelineState.FAILED

    def test_is_not_misled_by_an_answer_about_the_state_that_comes_late(self, in_process):
        asked = threading.Event()
        in_process(FakeEngine(lambda call: asked.wait(30) and None))
        result = start()
        service = result._job_service

        class Late:
            """Answers with what was so when it was asked, once the job is over."""

            def GetState(self, request):
                asked.set()
                assert result._over.wait(30)
                return beam_job_api_pb2.JobStateEvent(state=beam_job_api_pb2.JobState.RUNNING)

        result._job_service = Late()
        assert result.state == PipelineState.RUNNING
        result._job_service = service
        assert result.wait_until_finish() == PipelineState.DONE

    def test_is_not_bounded_by_the_timeout_for_answers_of_the_service(self, in_process):
        reached = threading.Event()

        def behave(call):
            # Longer than the one second that a single call to the service may take.
            assert not call.cancel.wait(1.5)
            reached.set()

        in_process(FakeEngine(behave))
        result = start("--job_server_timeout=1")
        assert result.wait_until_finish() == PipelineState.DONE
        assert reached.is_set()

    def test_for_a_cancelled_job_raises(self, running):
        result = start()
        assert running.started.wait(30)
        result.cancel()
        with pytest.raises(RuntimeError, match=r"ended as CANCELLED"):
            result.wait_until_finish()
        assert result.state == PipelineState.CANCELLED
        result.cancel()

    @pytest.mark.parametrize(
        ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
    )
    def test_is_ended_by_a_signal_which_cancels_the_job(self, running, number, kind):
        result = start()
        assert running.started.wait(30)
        before, wait = signal.getsignal(number), result._over.wait

        def wait_and_be_interrupted(seconds=None):
            result._over.wait = wait
            os.kill(os.getpid(), number)
            return wait(seconds)

        result._over.wait = wait_and_be_interrupted
        with pytest.raises(kind) as caught:
            result.wait_until_finish()
        assert caught.value.args in {(), (143,)}
        assert running.calls[0].cancel.is_cancelled()
        assert result.state == PipelineState.CANCELLED
        assert signal.getsignal(number) is before

    def test_leaves_a_handler_of_the_program_for_sigterm_alone(self, in_process):
        mine = signal.signal(signal.SIGTERM, lambda number, frame: None)
        try:
            installed = signal.getsignal(signal.SIGTERM)
            seen = []
            in_process(FakeEngine(lambda call: seen.append(signal.getsignal(signal.SIGTERM))))
            start().wait_until_finish()
            assert seen == [installed]
        finally:
            signal.signal(signal.SIGTERM, mine)

    def test_works_in_any_thread(self, in_process):
        in_process(FakeEngine())
        states = []
        thread = threading.Thread(target=lambda: states.append(start().wait_until_finish()))
        thread.start()
        thread.join(30)
        assert states == [PipelineState.DONE]


class TestMessages:
    def test_of_the_job_are_logged_and_its_own_log_records_only_once(self, in_process, caplog):
        def behave(call):
            call.observer.message(3, "stage 1 of 2")
            logging.getLogger("engine").warning("disk is slow")

        in_process(FakeEngine(behave))
        with caplog.at_level(logging.INFO):
            start().wait_until_finish()
        assert caplog.messages.count("stage 1 of 2") == 1
        assert caplog.messages.count("disk is slow") == 1

    def test_that_say_why_the_job_failed_are_raised_and_not_logged(self, in_process, caplog):
        in_process(FakeEngine(lambda call: 1 / 0))
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            start().wait_until_finish()
        assert "ZeroDivisionError" not in caplog.text


def test_metrics_tell_attempted_from_committed(in_process):
    def info(value):
        return monitoring_infos.int64_user_counter("ns", "n", value, ptransform="Step")

    in_process(FakeEngine(lambda call: Outcome([info(5)], [info(3)])))
    result = start()
    result.wait_until_finish()
    (counter,) = result.metrics().query()["counters"]
    assert (counter.attempted, counter.committed) == (5, 3)


def test_extra_packages_are_staged_under_their_names_and_removed_after_the_job(
    in_process, tmp_path
):
    package = tmp_path / "mine-1.0.tar.gz"
    package.write_bytes(b"not really")
    engine = in_process(
        FakeEngine(lambda call: [a.path.read_bytes() for a in call.artifacts] and None)
    )
    start(f"--extra_package={package}").wait_until_finish()
    names = [artifact.name for artifact in engine.calls[0].artifacts]
    assert "mine-1.0.tar.gz" in names


def test_temporary_files_of_a_submission_lie_where_they_are_swept(in_process, monkeypatch):
    staged = []
    monkeypatch.setattr("sparkdrain.runner.add_row_types", lambda *given: staged.append(given[2]))
    in_process(FakeEngine())
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=SparkDrainRunner"]))
    _ = pipeline | beam.Create([1])
    beams = pipeline.local_tempdir
    pipeline.run()
    own = own_room()
    assert [os.path.dirname(folder) for folder in (*staged, pipeline.local_tempdir)] == [own, own]
    assert not any(map(os.path.exists, (*staged, pipeline.local_tempdir, beams)))


def test_a_folder_of_beam_that_holds_files_stays_where_it_is(in_process):
    in_process(FakeEngine())
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=SparkDrainRunner"]))
    _ = pipeline | beam.Create([1])
    beams = pipeline.local_tempdir
    open(os.path.join(beams, "artifact"), "w").close()
    pipeline.run()
    assert pipeline.local_tempdir == beams
    assert not os.path.exists(beams), "Beam removes it"


def test_a_running_service_elsewhere_can_be_used(serve):
    engine = FakeEngine()
    endpoint = serve(engine, "localhost:0").endpoint
    start(f"--job_endpoint={endpoint}", "--slots=2").wait_until_finish()
    assert engine.calls[0].settings.slots == 2


def test_a_lost_connection_is_told_as_such(serve, monkeypatch):
    server = serve(FakeEngine(until_cancelled), "localhost:0")
    result = start(f"--job_endpoint={server.endpoint}")
    monkeypatch.setattr("sparkdrain.jobs.server._CANCEL_SECONDS", 0)
    monkeypatch.setattr("sparkdrain.types.CancelToken.cancel", lambda token: None)
    server._server.stop(None).wait()
    with pytest.raises(RuntimeError, match="connection to the job service was lost") as caught:
        result.wait_until_finish()
    assert isinstance(caught.value.__cause__, grpc.RpcError)
    with pytest.raises(grpc.RpcError):
        _ = result.state
    for ask in (result.cancel, result.drain):
        with pytest.raises((grpc.RpcError, RuntimeError)):
            ask()
    monkeypatch.undo()


def test_what_surrounds_the_engine_costs_little(in_process):
    """Beam's own calls are the most; on one machine this was a tenth of a second."""
    in_process(FakeEngine())
    start().wait_until_finish()
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=SparkDrainRunner"]))
    _ = pipeline | beam.Create([1]) | beam.Map(str)
    assert calls_of(lambda: pipeline.run().wait_until_finish()) < 100_000


def test_a_service_elsewhere_hears_of_the_folder_that_the_program_means(
    serve, tmp_path, monkeypatch
):
    engine = FakeEngine()
    endpoint = serve(engine, "localhost:0").endpoint
    monkeypatch.chdir(tmp_path)
    flags = (f"--job_endpoint={endpoint}", "--streaming", "--checkpoint_dir=kept")
    start(*flags, "--metadata_store=memory:").wait_until_finish()
    described = engine.calls[0].pipeline_options
    assert described["checkpoint_dir"] == f"{tmp_path}/kept"
