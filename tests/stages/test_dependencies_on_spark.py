"""What a pipeline needs reaches its workers, and only its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import apache_beam as beam
import pytest
from source_distribution import source_distribution, wheel

import sparkdrain
from sparkdrain.errors import BadSetup, UserCodeError

pytestmark = pytest.mark.spark


def lines(directory: Path, name: str) -> list[str]:
    return sorted(
        line for file in directory.glob(f"{name}-*") for line in file.read_text().splitlines()
    )


def answer_of(module: str):
    """A function that asks a module which only workers have."""

    def ask(_):
        import importlib  # noqa: PLC0415 - in the worker

        return importlib.import_module(module).answer()

    return ask


def ask(p: beam.Pipeline, module: str, output: Path) -> None:
    answers = p | beam.Create([1, 2]) | "Ask" >> beam.Map(answer_of(module))
    _ = answers | beam.io.WriteToText(str(output))


@pytest.mark.slow
def test_an_extra_package_is_there_for_its_job_and_not_for_the_next(pipeline, tmp_path):
    package = source_distribution(tmp_path, "brought", "1.0", "def answer():\n    return 41\n")
    with pipeline(f"--extra_package={package}") as p:
        ask(p, "brought", tmp_path / "first")
    assert lines(tmp_path, "first") == ["41", "41"]
    with pytest.raises(UserCodeError, match="No module named 'brought'"), pipeline() as p:
        ask(p, "brought", tmp_path / "second")


@pytest.mark.slow
def test_another_version_of_a_package_is_used_by_the_job_that_brings_it(pipeline, tmp_path):
    for version in ("1.0", "2.0"):
        package = wheel(tmp_path, "versioned", version, f"def answer():\n    return {version}\n")
        with pipeline(f"--extra_package={package}") as p:
            ask(p, "versioned", tmp_path / version)
        assert lines(tmp_path, version) == [version, version]


@pytest.mark.slow
def test_a_package_may_need_another_that_is_staged(pipeline, tmp_path):
    base = wheel(tmp_path, "needed", "1.0", "def answer():\n    return 7\n")
    top = wheel(tmp_path, "needing", "1.0", "from needed import answer\n", needs="needed")
    with pipeline(f"--extra_package={top}", f"--extra_package={base}") as p:
        ask(p, "needing", tmp_path / "out")
    assert lines(tmp_path, "out") == ["7", "7"]


@pytest.mark.slow
def test_a_requirements_file_may_name_local_packages(pipeline, tmp_path):
    package = wheel(tmp_path, "required", "1.0", "def answer():\n    return 8\n")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{package}\n")
    with pipeline(f"--requirements_file={requirements}", "--requirements_cache=skip") as p:
        ask(p, "required", tmp_path / "out")
    assert lines(tmp_path, "out") == ["8", "8"]


@pytest.mark.slow
def test_a_setup_file_sends_the_project_around_it(pipeline, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='whole', version='1', py_modules=['whole'])\n"
    )
    (project / "whole.py").write_text("def answer():\n    return 9\n")
    with pipeline(f"--setup_file={project / 'setup.py'}") as p:
        ask(p, "whole", tmp_path / "out")
    assert lines(tmp_path, "out") == ["9", "9"]


def test_a_package_that_cannot_be_installed_is_a_bad_setup_with_pips_reason(pipeline, tmp_path):
    broken = tmp_path / "broken-1.0-py3-none-any.whl"
    broken.write_bytes(b"not a wheel")
    with pytest.raises(BadSetup) as failed, pipeline(f"--extra_package={broken}") as p:
        _ = p | beam.Create([1])
    assert "--extra_package" in str(failed.value)
    assert "broken-1.0" in str(failed.value)


def run_program(tmp_path: Path, text: str) -> None:
    """Run a program as a user would; ``FLAGS`` in it are those of a small session."""
    program = tmp_path / "main.py"
    flags = ["--runner=sparkdrain.SparkDrainRunner", "--spark_master_url=local[2]"]
    program.write_text(textwrap.dedent(text).replace("FLAGS", repr([*flags, "--progress=off"])))
    sources = Path(sparkdrain.__file__).parent.parent
    path = os.pathsep.join([str(sources), str(sources.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", [[], ["--streaming"]], ids=["batch", "streaming"])
def test_elements_may_be_of_classes_that_the_program_defines(tmp_path, mode):
    run_program(
        tmp_path,
        f"""
            from dataclasses import dataclass
            import apache_beam as beam
            from apache_beam.options.pipeline_options import PipelineOptions

            @dataclass
            class Visit:
                user: str
                times: int

            def total(user, visits):
                return sum(visit.times for visit in visits if isinstance(visit, Visit))

            with beam.Pipeline(options=PipelineOptions([*FLAGS, *{mode!r}])) as p:
                made = p | beam.Create([Visit("ann", 1), Visit("ann", 2)])
                more = p | "Times" >> beam.Create([4, 8]) | beam.Map(lambda n: Visit("ann", n))
                grouped = (made, more) | beam.Flatten() | beam.GroupBy(lambda v: v.user)
                grouped | beam.MapTuple(total) | beam.io.WriteToText({str(tmp_path / "out")!r})
        """,
    )
    assert lines(tmp_path, "out") == ["15"]


def test_a_main_session_reaches_the_workers(tmp_path):
    pytest.importorskip("dill")
    run_program(
        tmp_path,
        f"""
            import math
            import apache_beam as beam
            from apache_beam.options.pipeline_options import PipelineOptions

            FACTOR = 6

            def times(x):
                return math.floor(FACTOR * x)

            if __name__ == "__main__":
                flags = [*FLAGS, "--save_main_session", "--pickle_library=dill"]
                with beam.Pipeline(options=PipelineOptions(flags)) as p:
                    product = p | beam.Create([7]) | beam.Map(times)
                    product | beam.io.WriteToText({str(tmp_path / "out")!r})
        """,
    )
    assert lines(tmp_path, "out") == ["42"]
