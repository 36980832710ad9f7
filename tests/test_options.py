from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st

import sparkdrain
from sparkdrain.concurrency.settings import AsyncStep
from sparkdrain.coordination.address import StoreAddress
from sparkdrain.errors import BadOption
from sparkdrain.jobs.engine import SparkEngine
from sparkdrain.option_table import OPTIONS
from sparkdrain.options import JobSettings, SparkDrainOptions
from sparkdrain.spark_master import spark_is_set_up

PACKAGE = Path(sparkdrain.__file__).parent


def settings(*flags: str, **others) -> JobSettings:
    return JobSettings.from_options(PipelineOptions(list(flags), **others), {})


def test_without_flags_every_option_has_the_default_of_the_table():
    assert settings() == JobSettings()
    assert JobSettings() == JobSettings(
        slots=0,
        shuffle_memory_mb=512,
        block_kb=1024,
        compiled_stages=True,
        async_steps=(),
        job_attempts=3,
        streaming=False,
        round_ms=200,
        round_attempts=3,
        round_limit_ms=0,
        hang_warning_ms=30_000,
        state_memory_mb=256,
        slot_memory_limit_mb=0,
        checkpoint_dir="",
        checkpoint_ms=10_000,
        checkpoints_kept=3,
        resume=False,
        checkpoint_access="user",
        state_dir="",
        recoveries=3,
        run_id="",
        metadata_store=StoreAddress("memory", ""),
        drain=True,
        drain_on_signal="none",
        drain_poll_ms=1000,
        drain_timer_repeats=10,
        drain_element_limit_ms=0,
        drain_watermark_limit_ms=0,
        drain_limit_ms=0,
        drain_limit_policy="fail",
        spark_conf=(),
        progress="auto",
        spark_master_url="local[*]",
    )


def test_flags_arrive_in_the_settings():
    given = settings(
        "--slots=7",
        "--shuffle_memory_mb=64",
        "--block_kb=256",
        "--compiled_stages=off",
        "--async_steps=Look up=7",
        "--async_steps=a=b/Call=100,carry_over",
        "--job_attempts=1",
        "--streaming",
        "--round_ms=500",
        "--round_attempts=2",
        "--round_limit_ms=60000",
        "--hang_warning_ms=5000",
        "--state_memory_mb=512",
        "--slot_memory_limit_mb=4096",
        "--checkpoint_dir=gs://bucket/state",
        "--checkpoint_ms=0",
        "--checkpoints_kept=9",
        "--resume",
        "--recoveries=0",
        "--run_id=wordcount/7",
        "--metadata_store=file:/var/drain",
        "--drain=off",
        "--drain_on_signal=TERM",
        "--drain_poll_ms=10",
        "--drain_timer_repeats=4",
        "--drain_element_limit_ms=1",
        "--drain_watermark_limit_ms=2",
        "--drain_limit_ms=3",
        "--drain_limit_policy=wait",
        "--spark_conf=spark.a=b=c",
        "--spark_conf=spark.empty=",
        "--progress=plain",
        "--spark_master_url=yarn",
    )
    assert given == JobSettings(
        slots=7,
        shuffle_memory_mb=64,
        block_kb=256,
        compiled_stages=False,
        async_steps=(
            ("Look up", AsyncStep(7)),
            ("a=b/Call", AsyncStep(100, carry_over=True)),
        ),
        job_attempts=1,
        streaming=True,
        round_ms=500,
        round_attempts=2,
        round_limit_ms=60_000,
        hang_warning_ms=5000,
        state_memory_mb=512,
        slot_memory_limit_mb=4096,
        checkpoint_dir="gs://bucket/state",
        checkpoint_ms=0,
        checkpoints_kept=9,
        resume=True,
        recoveries=0,
        run_id="wordcount/7",
        metadata_store=StoreAddress("file", "/var/drain"),
        drain=False,
        drain_on_signal="TERM",
        drain_poll_ms=10,
        drain_timer_repeats=4,
        drain_element_limit_ms=1,
        drain_watermark_limit_ms=2,
        drain_limit_ms=3,
        drain_limit_policy="wait",
        spark_conf=(("spark.a", "b=c"), ("spark.empty", "")),
        progress="plain",
        spark_master_url="yarn",
    )


def test_requests_to_drain_are_as_durable_as_the_state_where_that_can_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beside = StoreAddress("file", f"{tmp_path}/kept/@runs")
    assert settings(f"--checkpoint_dir={tmp_path}/kept").metadata_store == beside
    assert settings(f"--checkpoint_dir=file://{tmp_path}/kept").metadata_store == beside
    assert settings("--checkpoint_dir=kept").metadata_store == beside
    memory = StoreAddress("memory", "")
    assert settings().metadata_store == memory
    assert settings("--checkpoint_dir=gs://bucket/state").metadata_store == memory
    assert settings("--checkpoint_dir=x", "--metadata_store=memory:").metadata_store == memory


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("kept", "{here}/kept"),
        ("./a/../kept/", "{here}/kept"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a//b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:///a%20b", "/a b"),
        ("/a/b", "/a/b"),
        ("gs://bucket/a/../b/", "gs://bucket/a/../b"),
        ("mine:///", "mine:///"),
    ],
)
def test_checkpoints_are_in_the_same_place_for_every_process(given, used, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = settings(f"--checkpoint_dir={given}")
    monkeypatch.chdir("/")
    assert found.checkpoint_dir == used.format(here=tmp_path)
    assert (
        settings(f"--checkpoint_dir={found.checkpoint_dir}").checkpoint_dir == found.checkpoint_dir
    )


@pytest.mark.parametrize("given", ["file://host/a", "file:a/b", "file:", "file://", "file://~/a"])
def test_a_url_of_a_file_that_is_not_on_this_machine_is_refused(given):
    with pytest.raises(BadOption, match="as in file:///absolute/path"):
        settings(f"--checkpoint_dir={given}")


def test_options_from_code_count_like_flags():
    assert settings(slots=3, spark_conf=["spark.a=1"]).slots == 3
    options = PipelineOptions([])
    options.view_as(SparkDrainOptions).job_attempts = 5
    assert JobSettings.from_options(options, {}).job_attempts == 5


@given(st.integers(min_value=1, max_value=2**40), st.sampled_from([int, float, str]))
def test_numbers_may_come_as_text_or_as_doubles_as_the_job_api_sends_them(number, as_type):
    assert settings(block_kb=as_type(number) if as_type is not str else str(number)).block_kb


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--slots=many", r"--slots cannot be 'many': it takes a whole number"),
        ("--slots=-1", r"--slots cannot be -1.*The lowest value is 0"),
        ("--shuffle_memory_mb=0", r"--shuffle_memory_mb cannot be 0.*MiB.*lowest value is 1"),
        ("--block_kb=1.5", r"--block_kb cannot be '1.5'"),
        ("--job_attempts=0", r"--job_attempts cannot be 0"),
        ("--compiled_stages=yes", r"--compiled_stages cannot be 'yes': it takes on or off"),
        ("--progress=bar", r"--progress cannot be 'bar': it takes auto, live, plain or off"),
        ("--async_steps=Call", r"--async_steps cannot be 'Call'.*step=number"),
        ("--async_steps=Call=0", r"--async_steps cannot be 'Call=0'.*1 or more"),
        ("--async_steps=Call=1,carry", r"cannot be 'Call=1,carry'.*Only ',carry_over' may follow"),
        ("--spark_conf=executor.memory", r"--spark_conf cannot be 'executor.memory'.*key=value"),
        ("--spark_conf=memory=1g", r"--spark_conf cannot be 'memory=1g'.*start with 'spark\.'"),
        ("--spark_conf=spark.master=yarn", r"--spark_conf .*--spark_master_url"),
        (
            "--metadata_store=zoo",
            r"--metadata_store cannot be 'zoo': it takes memory:, memory:NAME",
        ),
        ("--metadata_store=file:x", r"--metadata_store .*the path must be absolute"),
        ("--run_id= ", r"--run_id cannot be ' '.*It is blank"),
        ("--drain=maybe", r"--drain cannot be 'maybe': it takes on or off"),
        ("--drain_poll_ms=0", r"--drain_poll_ms cannot be 0.*lowest value is 1"),
        ("--drain_limit_ms=-1", r"--drain_limit_ms cannot be -1.*0 = unlimited"),
        ("--drain_limit_policy=x", r"--drain_limit_policy .* takes fail, cancel or wait"),
        ("--spark_master_url=", r"--spark_master_url is empty"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_option(flag, says):
    with pytest.raises(BadOption, match=says):
        settings(flag)


@pytest.mark.parametrize("value", ["spark.a=1", 3, None])
def test_spark_conf_from_code_must_be_a_list(value):
    with pytest.raises(BadOption, match=r"--spark_conf"):
        settings(spark_conf=value)


@pytest.mark.parametrize("value", [True, None, 2.5])
def test_a_number_from_code_must_be_a_whole_number(value):
    with pytest.raises(BadOption, match=r"--slots cannot be"):
        settings(slots=value)


def test_no_option_has_the_name_of_one_of_beams():
    ours = set()
    theirs = set()
    for cls in PipelineOptions.__subclasses__():
        parser = pipeline_options._BeamArgumentParser(allow_abbrev=False)
        cls._add_argparse_args(parser)
        names = {flag for action in parser._actions for flag in action.option_strings}
        if cls.__module__.startswith("sparkdrain"):
            ours |= names
        elif cls.__module__.startswith("apache_beam"):
            theirs |= names
    assert {option.flag for option in OPTIONS} <= ours
    assert not ours & theirs - {"-h", "--help"}


def test_every_setting_is_in_the_table_and_every_option_is_a_setting():
    fields = {field.name: field.default for field in dataclasses.fields(JobSettings)}
    others = {"spark_master_url", "streaming", "samples"}
    assert set(fields) == {option.name for option in OPTIONS} | others


@pytest.mark.parametrize(
    ("experiments", "wants"),
    [
        ([], False),
        (["beam_fn_api"], False),
        (["beam_fn_api", "enable_data_sampling"], True),
        (["enable_always_on_exception_sampling"], True),
        (["enable_always_on_exception_sampling", "disable_always_on_exception_sampling"], False),
    ],
)
def test_beams_own_experiments_ask_for_samples_of_elements(experiments, wants):
    assert settings(*(f"--experiments={name}" for name in experiments)).samples == wants


def test_every_option_says_what_it_does_its_unit_and_why_one_would_change_it():
    for option in OPTIONS:
        assert option.summary, option.name
        assert option.unit, option.name
        assert option.why.endswith("."), option.name
        assert option.unit in option.help
        assert not option.words or option.default in ("", *option.words)


@pytest.mark.parametrize(
    ("typed", "means"), [("--resume", True), ("--resume=required", "required")]
)
def test_a_flag_may_take_a_word(typed, means):
    assert settings("--checkpoint_dir=/cp", typed).resume == means


def test_a_flag_takes_no_other_word():
    with pytest.raises(BadOption, match="--resume cannot be 'perhaps': it takes no value, or req"):
        settings("--checkpoint_dir=/cp", "--resume=perhaps")


PROGRAMS = """
import os, sys
from apache_beam.options.pipeline_options import PipelineOptions
if os.fork():
    _, status = os.wait()
    print("ended:", os.waitstatus_to_exitcode(status))
    from sparkdrain.options import JobSettings
    JobSettings.from_options(PipelineOptions([]))
    print(*sys.modules)
else:
    class Mine(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser): parser.add_argument("--slots")
    import sparkdrain.options
    PipelineOptions([]).get_all_options()
"""


@pytest.fixture(scope="module")
def programs(python):
    """Two programs, of which one has an option of its own; Beam is imported once for both."""
    return python("-c", PROGRAMS)


def test_a_program_with_an_option_of_the_same_name_is_told_which(programs):
    assert "ended: 1\n" in programs.stdout
    told = "BadOption: --slots is an option of SparkDrainRunner, but this program"
    assert told in programs.stderr


def test_no_option_is_accepted_and_ignored():
    """Every setting is read by some module other than the one that makes it."""
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.name not in {"options.py", "spark_master.py"}
    )
    unread = [
        field.name
        for field in dataclasses.fields(JobSettings)
        if not re.search(rf"\bsettings\.{field.name}\b", code)
    ]
    assert unread == []


class TestMaster:
    def test_beams_default_does_not_count_as_a_wish(self):
        assert settings().spark_master_url == "local[*]"
        assert settings("--spark_master_url=local[4]").spark_master_url == "local[4]"
        assert settings(spark_master_url="local[2]").spark_master_url == "local[2]"

    @pytest.mark.parametrize(
        "environ",
        [
            {"PYSPARK_GATEWAY_PORT": "1"},
            {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
            {"PYSPARK_SUBMIT_ARGS": "--master=yarn pyspark-shell"},
            {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"},
            {"MASTER": "yarn"},
        ],
    )
    def test_what_spark_submit_says_is_not_overridden(self, environ):
        assert JobSettings.from_options(PipelineOptions([]), environ).spark_master_url is None

    def test_a_master_that_the_user_names_wins_over_spark_submit(self):
        options = PipelineOptions(["--spark_master_url=yarn"])
        assert JobSettings.from_options(options, {"MASTER": "x"}).spark_master_url == "yarn"

    def test_other_arguments_of_spark_submit_name_no_master(self):
        assert not spark_is_set_up({"PYSPARK_SUBMIT_ARGS": "--driver-memory 2g pyspark-shell"})

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("spark.master  spark://a:7077\n", True),
            ("spark.master=yarn\n", True),
            ("# spark.master yarn\nspark.masterful x\n\n", False),
        ],
    )
    def test_spark_defaults_are_read_for_a_master(self, tmp_path, text, names):
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
        assert spark_is_set_up({"SPARK_HOME": str(tmp_path)}) is names
        assert spark_is_set_up({"SPARK_CONF_DIR": str(tmp_path / "conf")}) is names
        assert not spark_is_set_up({"SPARK_CONF_DIR": str(tmp_path)})

    def test_a_session_that_an_earlier_pipeline_started_changes_nothing(self, monkeypatch):
        class Context:
            class SparkContext:
                _active_spark_context = object()

        monkeypatch.setitem(sys.modules, "pyspark.core.context", Context)
        assert settings().spark_master_url == "local[*]"


def test_options_are_checked_without_importing_pyspark(programs):
    printed = programs.stdout
    assert "sparkdrain.options" in printed.split()
    assert "pyspark" not in printed.split()


@pytest.mark.parametrize(
    "flag",
    [
        "--resume",
        "--checkpoint_ms=500",
        "--checkpoints_kept=1",
        "--recoveries=0",
        "--checkpoint_access=group",
        "--state_dir=/somewhere",
    ],
)
def test_options_of_checkpoints_are_refused_without_a_folder_for_them(flag):
    with pytest.raises(BadOption, match=rf"{flag.partition('=')[0]} .* without --checkpoint_dir"):
        settings("--streaming", flag)
    settings("--streaming", flag, "--checkpoint_dir=/somewhere")


@pytest.mark.parametrize("value", ["state", "./state", "s3://bucket/state", "file:///state"])
def test_a_folder_of_each_host_is_named_by_an_absolute_path(value):
    with pytest.raises(BadOption, match=r"--state_dir cannot be .* absolute path"):
        settings("--streaming", "--checkpoint_dir=/somewhere", f"--state_dir={value}")
    for good in ("/state", "~/state", "$SCRATCH/state"):
        settings("--streaming", "--checkpoint_dir=/somewhere", f"--state_dir={good}")


def _checked(*flags: str) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create([1])
    SparkEngine().check(pipeline.to_runner_api(), settings(*flags))


@pytest.mark.parametrize(
    "flag",
    [
        "--round_ms=500",
        "--round_attempts=1",
        "--round_limit_ms=60000",
        "--hang_warning_ms=5000",
        "--state_memory_mb=512",
        "--slot_memory_limit_mb=4096",
        "--checkpoint_dir=/somewhere",
        "--drain_timer_repeats=4",
        "--drain_element_limit_ms=1",
        "--drain_watermark_limit_ms=2",
    ],
)
def test_what_only_a_stream_heeds_is_refused_by_a_batch_job(flag):
    with pytest.raises(BadOption, match=rf"{flag.partition('=')[0]} is for streaming jobs"):
        _checked(flag)
    _checked(flag, "--streaming")


def test_what_only_a_batch_job_heeds_is_refused_by_a_stream():
    with pytest.raises(BadOption, match="--job_attempts is for batch jobs"):
        _checked("--job_attempts=1", "--streaming")
    _checked("--job_attempts=1")


def test_an_option_given_as_it_is_anyway_has_its_effect():
    _checked("--round_ms=200", "--checkpoint_ms=10000", "--job_attempts=3", "--streaming")


def test_what_an_option_needs_is_an_option():
    names = {option.name for option in OPTIONS}
    assert {option.needs for option in OPTIONS} <= names | {""}


@pytest.mark.parametrize("workers", [0, 1, 0.0, 1.0, "0", "1", None])
def test_slots_share_a_jvm_or_each_has_its_own(workers):
    JobSettings.from_options(PipelineOptions(sdk_worker_parallelism=workers))


def test_no_other_number_of_sdk_workers_is_taken():
    options = PipelineOptions(["--sdk_worker_parallelism=4"])
    with pytest.raises(BadOption, match=r"--sdk_worker_parallelism=4 has no effect.* with 0"):
        JobSettings.from_options(options)
