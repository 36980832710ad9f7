"""A password that is planted in settings is in nothing that the product says."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import BoundedTrieData
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.portability.api import beam_job_api_pb2 as api
from fake_engine import FakeEngine, until_drained
from rich.console import Console

from sparkdrain import redaction, submission
from sparkdrain.cli import drain as drain_command
from sparkdrain.cli import jobs as jobs_command
from sparkdrain.cli.drain_by_service import connected
from sparkdrain.drain.progress import Left, advanced, began
from sparkdrain.errors import BadOption, SparkDrainError, UserCodeError
from sparkdrain.graph.translate import translate
from sparkdrain.hosts.line import HostId, HostRecord, Seen, Sight
from sparkdrain.invocation import Outcome
from sparkdrain.io.kafka.settings import settings as kafka_settings
from sparkdrain.jobs.messages import Messages
from sparkdrain.options import JobSettings, SparkDrainOptions
from sparkdrain.redaction import redact, redacted, remember
from sparkdrain.rounds.driver.hang_watch import HangWatch
from sparkdrain.rounds.messages import AtWork
from sparkdrain.stages.cluster import context as cluster
from sparkdrain.stages.telling.failure import failure_in, task_failure
from sparkdrain.stages.telling.progress import steps_of
from sparkdrain.stages.workers.preparation import Preparation, prepare
from sparkdrain.submission import ServiceHandle

PLANTED = "HUNTER2-planted"


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch):
    """Values that one test has remembered are not known in the next."""
    monkeypatch.setattr(redaction._Known, "values", ())


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "sasl_plain_password", "ssl.key.password", "sasl.passwrd", "pwd"),
        *("spark.authenticate.secret", "s3_secret_access_key", "client_secret", "SECRET"),
        *("sasl.jaas.config", "sasl.oauthbearer.token", "api-key", "azure_connection_string"),
        *("spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net", "Authorization"),
        *("gcp_credentials", "ssl.key.pem", "private_key", "Ocp-Apim-Subscription-Key"),
        *("login_token_params", "SECRET_ITEMS", "tokenGrid"),
    ],
)
def test_a_secret_is_known_by_its_name_wherever_it_is_shown(name):
    for text in (
        f"{name}={PLANTED}",
        f"--spark_conf={name}={PLANTED} was refused",
        f"a {{'x': 1, '{name}': '{PLANTED}', 'y': 2}}",
        json.dumps({name: PLANTED}),
        f"config=(('{name}', '{PLANTED}'),)",
        f"'{name}': ['{PLANTED}']",
        f"{{'{name}': b'{PLANTED}'}}",
        f'{name} = "{PLANTED} and more"',
        f"--{name} {PLANTED}",
    ):
        shown = redact(text)
        assert PLANTED not in shown, text
        assert "and more" not in shown
        assert "***" in shown
        assert name in shown
    assert redacted({"a": {name: PLANTED}, "b": [(name, [PLANTED])]}) == {
        "a": {name: "***"},
        "b": [(name, "***")],
    }


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{PLANTED}@host/path",
        f"GET https://mine.blob.core.windows.net/c/b?sv=2024-11-04&sig={PLANTED}%3D&sp=r failed",
        f"https://bucket.s3.amazonaws.com/a?X-Amz-Expires=9&X-Amz-Signature={PLANTED}",
        f"Authorization: Bearer {PLANTED}",
        f"Authorization: Basic {PLANTED}",
        f"password: {PLANTED}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{PLANTED}",
        f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={PLANTED};EntityPath=e",
    ],
)
def test_a_secret_is_known_by_its_form(text):
    assert PLANTED not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'token' [while running 'Count tokens']",
        "Unexpected token: } at line 3",
        "key=5 and keys: 7; the key group of key 'a' is 3",
        "ssl.key.location=/etc/x.pem, sasl.mechanism=PLAIN, ssl.keystore.type=JKS",
        "token_ttl=3600 password_file=/run/x secretTimeoutMs=5 client_secret_id=x secretDir=/y",
        "http://host/a?sig=short&signature=none",
        "--checkpoint_dir=/a/b cannot be 'x': it takes a path",
        "Spark asks for no secret there: leave the setting out",
        "http://host:80/a@b",
        "consumer_config must not set 'sasl.password': the job sets it",
        'No such configuration property: "sasl.passwrd", did you mean something else?',
    ],
)
def test_what_is_no_secret_is_shown(text):
    assert redact(text) == text


@pytest.mark.parametrize("spelling", [repr, json.dumps, str, lambda text: f"<{text}>"])
def test_a_value_that_is_remembered_is_hidden_wherever_it_occurs(spelling):
    value = 'pa"ss\\wörd/1'
    remember({"consumer_config": {"sasl.password": value, "sasl.username": "me-myself"}})
    assert value not in redact(spelling(value))
    assert "***" in redact(spelling(value))
    assert redact("me-myself") == "me-myself"


def test_short_values_are_not_hidden_everywhere():
    remember({"password": "a", "secret": ""})
    assert redact("banana") == "banana"


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "token" * 10**5, "password='" * 10**5, "x://" * 10**5, "[" * 10**6]
)
def test_long_texts_take_no_longer_than_they_must(text):
    began = time.monotonic()
    redact(text)
    assert time.monotonic() - began < 20


def test_secrets_are_hidden_at_both_ends_of_a_long_text_and_known_ones_everywhere():
    remember({"password": PLANTED})
    filler = "x " * 10**6
    shown = redact(f"pwd=abcdefgh {filler}{PLANTED}{filler} pwd=abcdefgh")
    assert "abcdefgh" not in shown
    assert PLANTED not in shown


def options(*flags: str) -> PipelineOptions:
    return PipelineOptions([f"--spark_conf=spark.my.password={PLANTED}", *flags])


def test_reprs_of_settings_and_options():
    view = options().view_as(SparkDrainOptions)
    settings = JobSettings.from_options(options())
    assert ("spark.my.password", PLANTED) in settings.spark_conf
    kafka = kafka_settings("b:1", {"sasl.password": PLANTED, "group.id": "g"}, "auto", "config")
    again = pickle.loads(pickle.dumps(kafka))
    assert dict(again.config)["sasl.password"] == PLANTED
    for each in (view, settings, kafka, again):
        for text in (repr(each), str(each), f"{each}"):
            assert PLANTED not in text
            assert "***" in text
    assert "('group.id', 'g')" in repr(kafka)
    assert PLANTED not in repr(Preparation.of({"pw": PLANTED}))


@pytest.mark.parametrize(
    "start",
    [
        lambda: kafka_settings("b:1", {"sasl.password": [PLANTED]}, "auto", "consumer_config"),
        lambda: kafka_settings("b:1", {"sasl.password": [[1], PLANTED]}, "auto", "config"),
        lambda: kafka_settings("b:1", {"x": [{"sasl.password": PLANTED}]}, "auto", "config"),
        lambda: JobSettings.from_options(PipelineOptions([f"--spark_conf=my.password={PLANTED}"])),
        lambda: JobSettings.from_options(PipelineOptions(spark_conf={"spark.password": PLANTED})),
    ],
)
def test_errors_of_settings(start):
    with pytest.raises(BadOption) as caught:
        start()
    assert PLANTED not in str(caught.value)
    assert PLANTED not in repr(caught.value)


def test_errors_have_no_secret_that_is_known_or_named():
    remember({"password": PLANTED})
    for error in (SparkDrainError(f"with {PLANTED}"), UserCodeError("sasl.password=abcdefg")):
        again = pickle.loads(pickle.dumps(error))
        assert PLANTED not in f"{again} {again!r}"
        assert "abcdefg" not in f"{again} {again!r}"


def test_options_that_are_not_sent_are_told_without_their_values(caplog):
    for name, value in (("mine", {"sasl.password": PLANTED}), ("client_secret", {"x": PLANTED})):
        described = {f"beam:option:{name}:v1": {**value, "object": object()}}
        ServiceHandle.encode_pipeline_options(described)
    assert "is not sent to workers" in caplog.text
    assert PLANTED not in caplog.text


def test_log_records_of_this_package(caplog):
    logger = logging.getLogger("sparkdrain.some.module")
    remember({"password": "known-value"})
    try:
        raise ValueError({"sasl.password": PLANTED})
    except ValueError:
        logger.exception("with %s and %s", {"sasl.password": PLANTED}, "known-value")
    logger.warning("plain %d", 7)
    assert PLANTED not in caplog.text
    assert "known-value" not in caplog.text
    assert "ValueError" in caplog.text
    assert caplog.records[-1].args == (7,)


def test_warnings_are_printed_where_no_logging_is_set_up():
    code = (
        "import logging, sparkdrain\n"
        "logger = logging.getLogger('sparkdrain.x')\n"
        f"logger.warning('sasl.password=%s', {PLANTED!r})\n"
        "logger.info('not this')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "sasl.password=***\n"


def submitted(in_process, behave, *flags):
    engine = in_process(FakeEngine(behave))
    pipeline = beam.Pipeline(runner="SparkDrainRunner", options=options("--progress=off", *flags))
    pipeline | beam.Create([1])
    return engine, pipeline.run()


def test_job_messages_failures_records_and_the_command_that_lists_them(
    in_process, tmp_path, caplog, capsys
):
    """The job's code prints the password in each way that it has."""

    def tell(call):
        call.observer.message(api.JobMessage.JOB_MESSAGE_WARNING, f"warned of {PLANTED}")
        logging.getLogger("user").warning("logged %s", PLANTED)
        text = f"ValueError: {PLANTED} [while running 'X']\n\ntrace with {PLANTED}"
        raise UserCodeError(text)

    store = f"file:{tmp_path}/runs"
    flags = ("--streaming", f"--metadata_store={store}", "--job_name=wc")
    engine, result = submitted(in_process, tell, *flags)
    with pytest.raises(UserCodeError) as caught:
        result.wait_until_finish()
    assert PLANTED not in f"{caught.value} {caught.value!r}"
    assert PLANTED not in repr(engine.calls[0])
    said = [record.getMessage() for record in caplog.records if record.name != "user"]
    assert any("warned of ***" in each for each in said)
    assert PLANTED not in "\n".join(said)
    code = main_jobs("--metadata_store", store)
    assert code == 0
    printed = capsys.readouterr()
    assert "wc" in printed.out
    assert PLANTED not in printed.out + printed.err
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path


def test_metrics_the_drain_command_hang_messages_and_the_terminal(in_process, capsys, caplog):
    """A stream whose step and counter have the password in their names is asked, and drained."""
    step, running = f"Log in with {PLANTED}", threading.Event()
    tries = [BoundedTrieData(singleton=each) for each in ((f"{PLANTED}.", "x"), ("y", PLANTED))]
    tried = tries[0].combine(tries[1])
    metrics = [
        monitoring_infos.int64_user_counter("mine", f"count of {PLANTED}", 7, ptransform=step),
        monitoring_infos.user_set_string("mine", "set", {PLANTED, "me"}, ptransform=step),
        monitoring_infos.user_bounded_trie("mine", "trie", tried, ptransform=step),
    ]
    stack = ((f"/{PLANTED}/code.py", 7, "process"),)
    sight = Sight(1, 5.0, AtWork(step, "", stack).encode())
    seen = Seen(HostRecord(HostId("job", 0), "box", 100, ("127.0.0.1", 1)), sight)

    def behave(call):
        call.observer.counted(Outcome(metrics, metrics))
        tell = partial(call.observer.message, api.JobMessage.JOB_MESSAGE_WARNING)
        watch = HangWatch(1, 0, lambda: [seen], tell, lambda: None, iter((0, 9, 9)).__next__)
        watch.level(1)
        watch.look()
        progress = advanced(began("x", 0), 1, [Left(step, 1, 0, 5, 7)], [])
        call.drain.inquiry.on_ask(
            lambda: call.drain.inquiry.answer(call.drain.inquiry.wanted(), progress)
        )
        running.set()
        until_drained(call)
        call.observer.draining(progress)
        return Outcome(metrics, metrics, drained=True)

    _, result = submitted(in_process, behave, "--streaming", "--job_name=wc", "--progress=plain")
    assert running.wait(30)
    said = [main_drain("wc", "--dry-run"), main_drain("wc")]
    assert "5 windows" in said[0]
    assert "Log in with ***: 5 windows" in said[0]
    assert "Log in with ***: 0 of 1 inputs drained" in said[1]
    assert result.wait_until_finish() == "DRAINED"
    found = result.metrics().query()
    assert "count of ***" in str(found["counters"])
    with connected(submission.local_server().endpoint) as service:
        asked = api.GetJobMetricsRequest(job_id=result.job_id)
        told = service.GetJobMetrics(asked).metrics.SerializeToString()
    assert b"me" in told
    assert PLANTED.encode() not in told
    assert "runs step 'Log in with ***'" in caplog.text
    printed = capsys.readouterr()
    assert "Log in with ***" in printed.err
    for text in (*said, str(found), caplog.text, printed.out, printed.err):
        assert PLANTED not in text


def main_drain(*arguments: str) -> str:
    parser, written = argparse.ArgumentParser(), io.StringIO()
    drain_command.add_arguments(parser)
    endpoint = f"--job_endpoint={submission.local_server().endpoint}"
    code = drain_command.drain(
        parser.parse_args([*arguments, endpoint]), Console(file=written, width=1000)
    )
    assert code == 0, written.getvalue()
    return written.getvalue()


@pytest.mark.usefixtures("_prepared")
def test_what_a_task_tells_of_its_failure_which_spark_writes_into_its_log():
    """It is packed, so that its text survives the way through the JVM."""
    prepare(Preparation.of({"spark_conf": [f"spark.my.password={PLANTED}"]}))
    failure = failure_in(str(task_failure(ValueError(f"cannot log in with {PLANTED}"), 1, 2)))
    assert failure.message == "ValueError: cannot log in with ***"
    assert PLANTED not in failure.trace


@pytest.fixture
def _prepared():
    root = logging.getLogger()
    level, options = root.level, RuntimeValueProvider.runtime_options
    yield
    root.setLevel(level)
    RuntimeValueProvider.runtime_options = options
    pickler.set_library()


def test_the_names_of_steps_in_progress_and_on_the_page_of_spark():
    remember({"password": PLANTED})
    pipeline = beam.Pipeline()
    _ = pipeline | f"With {PLANTED}" >> beam.Create([1])
    assert steps_of(translate(pipeline.to_runner_api())) == ["With ***"]


def main_jobs(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    jobs_command.add_arguments(parser)
    return jobs_command.jobs(parser.parse_args(arguments))


def test_text_with_half_a_character_reaches_clients(in_process):
    half = "\ud83d"

    def tell(call):
        call.observer.message(api.JobMessage.JOB_MESSAGE_WARNING, f"warned {half}")
        logging.getLogger("user").warning("logged %s", half)
        text = f"ValueError: {half} [while running 'X']"
        raise UserCodeError(text)

    _, result = submitted(in_process, tell)
    with pytest.raises(UserCodeError, match=r"ValueError: \\ud83d \[while running 'X'\]"):
        result.wait_until_finish()


def test_a_log_record_that_cannot_be_formatted_does_not_fail_the_job(in_process, capsys):
    def tell(call):
        logging.getLogger("user").warning("%d", "no number")
        return Outcome()

    logging.raiseExceptions, before = False, logging.raiseExceptions
    try:
        _, result = submitted(in_process, tell)
        assert result.wait_until_finish() == "DONE"
    finally:
        logging.raiseExceptions = before


def test_a_job_name_with_half_a_character_is_refused(in_process):
    with pytest.raises(BadOption, match="holds half of a character"):
        submitted(in_process, lambda call: Outcome(), "--job_name=\ud83d")


def test_messages_are_readable_whatever_the_text_is():
    messages = Messages(lambda: api.JobMessage().time or _Clock())
    messages.message(1, f"password={PLANTED} \udc80")
    messages.close()
    (response,) = messages.follow()
    assert response.message_response.message_text == "password=*** \\udc80"


class _Clock:
    def ToJsonString(self):
        return ""


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://host:1"])
def test_secret_properties_are_not_on_the_command_line_of_the_jvm(master):
    given = (("spark.my.password", PLANTED), ("spark.driver.memory", "1g"), ("spark.x", "y"))
    settings = JobSettings(spark_conf=given, spark_master_url=master)
    told = dict(cluster._jvm_properties(settings, {}))
    assert PLANTED not in repr(told)
    assert told["spark.driver.memory"] == "1g"
    assert ("spark.x" in told) == (master != "local[2]")


NAMES = ["n" * 300, "字" * 80, "..", ".", "a/b", "-rf", "\x01"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_job_may_have_every_name(in_process, tmp_path, name):
    flags = (f"--job_name={name}", "--streaming", f"--metadata_store=file:{tmp_path}/runs")
    engine, result = submitted(in_process, lambda call: Outcome(), *flags, f"--run_id={name}")
    assert result.wait_until_finish() == "DONE"
    assert engine.calls[0].job_name == name
    assert os.listdir(tmp_path) == ["runs"]


def test_secrets_among_the_options_of_a_job_are_known_to_its_service(in_process):
    """An option of the program's own, which only its name shows to be secret."""

    class Mine(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--my_client_secret")

    def tell(call):
        text = f"ValueError: {call.pipeline_options['my_client_secret']}"
        raise UserCodeError(text)

    other = "another-secret"
    engine, result = submitted(in_process, tell, f"--my_client_secret={other}")
    with pytest.raises(UserCodeError, match=r"ValueError: \*\*\*"):
        result.wait_until_finish()
    assert engine.calls[0].pipeline_options["my_client_secret"] == other
    with connected(submission.local_server().endpoint) as service:
        told = str(service.GetJobs(api.GetJobsRequest()))
    assert "my_client_secret" in told
    assert "spark.my.password=***" in told
    assert PLANTED not in told
    assert other not in told
