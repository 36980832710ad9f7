"""What a terminal shows, and what is left, when a whole program fails or is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

import sparkdrain

SOURCES = str(Path(sparkdrain.__file__).parent.parent)
ROOT = str(Path(SOURCES).parent)

HEAD = """
import os, sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
import sparkdrain

def run(build, *flags):
    own = ["--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off"]
    with beam.Pipeline(options=PipelineOptions([*own, *flags])) as p:
        build(p)
"""


@pytest.fixture
def program(tmp_path):
    """Starts a program in a process group of its own, as a shell does; kills what is left."""
    started = []

    def start(code: str, **environ: str) -> subprocess.Popen[str]:
        file = tmp_path / "program.py"
        file.write_text(HEAD + textwrap.dedent(code))
        path = os.pathsep.join([SOURCES, ROOT])
        process = subprocess.Popen(
            [sys.executable, str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, **environ},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        family = with_descendants(process.pid)
        for member in family:
            member.kill()
        psutil.wait_procs(family, 10)
        process.communicate()


def with_descendants(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.spark
def test_the_users_exception_is_the_first_thing_that_is_printed(program):
    process = program("""
        def boom(x):
            raise ValueError("not today")
        run(lambda p: p | beam.Create([1]) | "Boom" >> beam.Map(boom))
    """)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 1
    # Beam itself says this when it is imported.
    lines = [line for line in printed.splitlines() if "apitools not found" not in line]
    assert lines[0] == "Traceback (most recent call last):"
    error = next(line for line in lines if line.startswith("sparkdrain.errors"))
    assert error == (
        "sparkdrain.errors.UserCodeError: ValueError: not today [while running 'Boom']"
    )
    assert "org.apache.spark" not in printed
    assert "Py4J" not in printed


@pytest.mark.spark
@pytest.mark.parametrize(
    "to_all",
    [pytest.param(True, id="ctrl-c"), pytest.param(False, id="sigterm", marks=pytest.mark.slow)],
)
def test_an_interrupted_program_leaves_no_process_and_fails(program, tmp_path, to_all):
    process = program(f"""
        def wait(x):
            open({str(tmp_path / "running")!r}, "w").close()
            time.sleep(1000)
        run(lambda p: p | beam.Create([1]) | beam.Map(wait))
    """)
    wait_for(tmp_path / "running", process)
    family = with_descendants(process.pid)
    assert len(family) >= 4  # the program, a JVM, a daemon, a worker
    if to_all:
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    else:
        process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=60)
    assert process.returncode not in {0, None}
    _, alive = psutil.wait_procs(family, 20)
    assert not alive
    assert ("KeyboardInterrupt" in printed) == to_all
    assert "Cancelling job" in printed


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_program_takes_its_workers_with_it(program, tmp_path):
    process = program(f"""
        def wait(x):
            open({str(tmp_path / "running")!r}, "w").close()
            time.sleep(1000)
        run(lambda p: p | beam.Create([1]) | beam.Map(wait))
    """)
    wait_for(tmp_path / "running", process)
    family = with_descendants(process.pid)
    process.kill()
    _, alive = psutil.wait_procs(family, 30)
    assert not alive


@pytest.mark.spark
def test_a_jvm_that_dies_fails_the_job_and_the_next_job_gets_a_new_one(program):
    process = program(
        """
        import psutil, sparkdrain.errors
        def kill(x, program=os.getpid()):
            for process in psutil.Process(program).children(recursive=True):
                if process.name() == "java":
                    process.kill()
            time.sleep(1000)
        try:
            run(lambda p: p | beam.Create([1]) | beam.Map(kill))
        except sparkdrain.errors.SparkDrainError as error:
            print("first:", type(error).__name__, str(error).splitlines()[0])
        run(lambda p: p | beam.Create([1]) | beam.Map(lambda x: x))
        print("second: fine")
    """.replace("import signal", "import sparkdrain.errors, signal")
    )
    out, printed = process.communicate(timeout=200)
    first, second = out.strip().splitlines()
    assert first.startswith(
        "first: SparkLost Spark's own process (the JVM) was lost while the job ran: it was killed "
        "by SIGKILL"
    )
    assert second == "second: fine"
    assert process.returncode == 0, printed


def test_without_java_the_program_says_how_to_get_it(program, tmp_path):
    process = program(
        "run(lambda p: p | beam.Create([1]))", PATH=str(tmp_path), JAVA_HOME=str(tmp_path)
    )
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "sparkdrain.errors.BadSetup: JAVA_HOME is" in printed
    assert "Install Java 17 or later" in printed


def test_a_java_that_is_too_old_is_named_before_it_is_started(program, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    process = program("run(lambda p: p | beam.Create([1]))", JAVA_HOME=str(tmp_path))
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "BadSetup: Java 11.0.2" in printed
    assert "too old" in printed


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://127.0.0.1:9", "No Spark master answers at --spark_master_url=spark://127.0.0.1"),
        ("k8s://https://127.0.0.1:9", "at --spark_master_url=k8s://https://127.0.0.1:9 ("),
        ("yarn", "--spark_master_url=yarn: where YARN is stands in Hadoop's configuration, but"),
        ("nonsense", "Spark could not be started for --spark_master_url=nonsense: "),
    ],
)
def test_a_master_that_is_not_there_is_named_at_once(program, tmp_path, master, said):
    process = program(
        f"run(lambda p: p | beam.Create([1]), '--spark_master_url={master}')",
        HOME=str(tmp_path),
        **dict.fromkeys(
            ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"), ""
        ),
    )
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1
    _, _, told = printed.partition("BadSetup: ")
    assert said in told
    assert "\tat " not in told


@pytest.mark.spark
def test_what_workers_print_reaches_the_terminal(program):
    process = program("""
        def say(x):
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                print("to", name, x, stream.line_buffering, stream.write_through, "-" * 300,
                      file=stream)
        run(lambda p: p | beam.Create(range(2000)) | beam.Map(say))
    """)
    out, printed = process.communicate(timeout=120)
    assert process.returncode == 0
    lines = Counter((out + printed).splitlines())
    for x in range(2000):
        # Both streams come through one pipe, from two workers: each line whole, as one write.
        # Spark reads pipes in parts of 1,024 bytes, so with one for each it would mix them.
        assert lines[f"to stdout {x} True False {'-' * 300}"] == 1
        assert lines[f"to stderr {x} True False {'-' * 300}"] == 1
    assert "incubator" not in printed
    assert "log4j" not in printed
