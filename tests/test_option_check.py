from __future__ import annotations

import gc

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import sparkdrain.options
from sparkdrain.errors import BadOption
from sparkdrain.option_check import refuse_unknown, refuse_without_effect

PROGRAM = ["/home/me/pipeline.py"]


def check(*flags: str, **keywords) -> None:
    refuse_unknown(PipelineOptions(list(flags), **keywords), PROGRAM)


@pytest.mark.parametrize(
    ("flag", "right"),
    [
        ("--slotz=3", "--slots"),
        ("--spark-master-url=yarn", "--spark_master_url"),
        ("--spark_master=yarn", "--spark_master_url"),
        ("-slots", "--slots"),
        ("--Compiled-Stages=off", "--compiled_stages"),
        ("--job_attempt=3", "--job_attempts"),
        ("--runer=DirectRunner", "--runner"),
        ("--requirement_file=x", "--requirements_file"),
    ],
)
def test_a_misspelt_flag_stops_and_the_right_one_is_suggested(flag, right):
    with pytest.raises(BadOption) as caught:
        check(flag)
    name = flag.split("=")[0]
    assert f"Unknown pipeline option {name}. Did you mean {right}?\n" in str(caught.value)


def test_an_unknown_flag_that_is_like_no_other_stops_without_a_suggestion():
    with pytest.raises(BadOption, match=r"Unknown pipeline option --xyzzy\.\n") as caught:
        check("--xyzzy=1")
    assert "Did you mean" not in str(caught.value)
    assert "PipelineOptions subclass" in str(caught.value)


def test_all_unknown_options_are_named_at_once_each_only_once():
    with pytest.raises(BadOption) as caught:
        check("--slotz=1", "--slotz=2", "--xyzzy")
    assert str(caught.value).count("--slotz") == 1
    assert "--xyzzy" in str(caught.value)


def test_known_flags_pass_in_every_form():
    check("--slots=3", "--slots", "3", "--experiments=a,b", "--save_main_session", "--job_name=x")
    check("--runner", "SparkDrainRunner", "--spark_conf", "spark.a=1", "--spark_conf=spark.b=2")


def test_words_and_numbers_that_belong_to_no_flag_are_left_alone():
    check("word", "-1", "-.5", "-", "--", "--whatever")


def test_options_that_the_program_declares_are_known_even_two_classes_down():
    class Mine(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_argument("--my_own_thing")

    class Special(Mine):
        @classmethod
        def _add_argparse_args(cls, parser):
            parser.add_value_provider_argument("--my_special_thing")

    try:
        check("--my_own_thing=1", "--my_special_thing=2")
        with pytest.raises(BadOption, match=r"Did you mean --my_special_thing"):
            check("--my_special_thin=2")
    finally:
        del Mine, Special
        gc.collect()  # Beam would go on parsing them in the tests after this one


def test_keywords_are_checked_like_flags():
    check(slots=3, job_name="x")
    with pytest.raises(BadOption, match=r"--slotz\. Did you mean --slots"):
        check(slotz=3)


def test_what_views_add_is_no_keyword_of_the_users():
    options = PipelineOptions([])
    options.get_all_options()
    options.view_as(sparkdrain.options.SparkDrainOptions)
    refuse_unknown(options, PROGRAM)


def test_an_experiment_lets_everything_pass():
    check("--slotz=3", "--experiments=allow_unknown_options", other=1)


class TestCommandLineOfTheProcess:
    """Flags that Beam took from sys.argv, because PipelineOptions() was given none."""

    @pytest.fixture
    def command_line(self, monkeypatch):
        def run(*argv: str) -> None:
            monkeypatch.setattr("sys.argv", list(argv))
            refuse_unknown(PipelineOptions(), argv)

        return run

    def test_a_programs_command_line_is_checked(self, command_line):
        command_line("/home/me/pipeline.py", "--slots=3")
        with pytest.raises(BadOption, match=r"--slotz"):
            command_line("/home/me/pipeline.py", "--slotz=3")

    @pytest.mark.parametrize(
        "program",
        [
            "/venv/bin/pytest",
            "/venv/lib/site-packages/pytest/__main__.py",
            "/venv/lib/site-packages/pytest.py",
            "python -m unittest",
            "/usr/lib/python3/unittest/__main__.py",
            "/venv/site-packages/ipykernel_launcher.py",
            "C:\\venv\\Scripts\\py.test",
        ],
    )
    def test_flags_of_a_test_runner_or_a_notebook_are_left_alone(self, command_line, program):
        command_line(program, "-q", "--slow", "--maxfail=2")

    def test_a_program_that_only_sounds_like_a_test_runner_is_checked(self, command_line):
        with pytest.raises(BadOption):
            command_line("/home/me/pytest_results_pipeline.py", "--slow")

    def test_flags_given_explicitly_are_checked_in_a_test_runner_too(self):
        with pytest.raises(BadOption):
            refuse_unknown(PipelineOptions(["--slotz=1"]), ["/venv/bin/pytest", "-q"])


@pytest.mark.parametrize(
    "flag",
    [
        "--spark_job_server_jar=x.jar",
        "--spark_submit_uber_jar",
        "--spark_rest_url=http://h:6066",
        "--output_executable_path=x.jar",
    ],
)
def test_options_that_could_only_be_ignored_are_refused(flag):
    with pytest.raises(BadOption, match=rf"{flag.split('=')[0]} has no effect.*: .+"):
        refuse_without_effect(PipelineOptions([flag]))


def test_without_such_options_nothing_is_refused():
    refuse_without_effect(PipelineOptions(["--spark_master_url=yarn", "--slots=2"]))


@pytest.mark.parametrize("kind", [[], ["--environment_type=beam:env:embedded_python:v1"]])
def test_what_configures_no_environment_is_refused(kind):
    with pytest.raises(BadOption, match=r"--environment_config has no.*--environment_type"):
        refuse_without_effect(PipelineOptions([*kind, "--environment_config=an/image"]))
    named = ["--environment_type=DOCKER", "--environment_config=an/image"]
    refuse_without_effect(PipelineOptions(named))
