"""What a terminal shows, and what is left, when a whole program fails or is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

import sparkdrain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


# The last one starts Spark's JVM, and says so as none that was there before would.
MASTERS = [
    ("spark://127.0.0.1:9", "No Spark master answers at --spark_master_url=spark://127.0.0.1"),
    ("k8s://https://127.0.0.1:9", "at --spark_master_url=k8s://https://127.0.0.1:9 ("),
    ("yarn", "--spark_master_url=yarn: where YARN is stands in Hadoop's configuration, but"),
    ("nonsense", "Spark could not be started for --spark_master_url=nonsense: "),
]


@contextmanager
def programs(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs in process groups of their own, as a shell does; kills what is left."""
    started = []

    def start(code: str, **environ: str) -> subprocess.Popen[str]:
        file = folder / "program.py"
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


@pytest.fixture
def program(tmp_path):
    with programs(tmp_path) as start:
        yield start


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


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A program whose first pipeline prints a lot, and whose second raises: code and prints."""
    with programs(tmp_path_factory.mktemp("ended")) as start:
        process = start("""
            def say(x):
                for name in ("stdout", "stderr"):
                    stream = getattr(sys, name)
                    print("to", name, x, stream.line_buffering, stream.write_through, "-" * 300,
                          file=stream)
            def boom(x):
                raise ValueError("not today")
            run(lambda p: p | beam.Create(range(2000)) | beam.Map(say))
            run(lambda p: p | beam.Create([1]) | "Boom" >> beam.Map(boom))
        """)
        out, printed = process.communicate(timeout=120)
        return process.returncode, out, printed


@pytest.mark.spark
def test_the_users_exception_is_the_first_thing_that_is_printed(ended):
    code, _, printed = ended
    assert code == 1
    # Beam itself says this when it is imported.
    lines = [line for line in printed.splitlines() if "apitools not found" not in line]
    lines = [line for line in lines if not line.startswith(("to stdout ", "to stderr "))]
    assert lines[0] == "Traceback (most recent call last):"
    error = next(line for line in lines if line.startswith("sparkdrain.errors"))
    assert error == (
        "sparkdrain.errors.UserCodeError: ValueError: not today [while running 'Boom']"
    )
    assert "org.apache.spark" not in printed
    assert "Py4J" not in printed


@pytest.mark.spark
def test_what_workers_print_reaches_the_terminal(ended):
    _, out, printed = ended
    lines = Counter((out + printed).splitlines())
    for x in range(2000):
        # Both streams come through one pipe, from two workers: each line whole, as one write.
        # Spark reads pipes in parts of 1,024 bytes, so with one for each it would mix them.
        assert lines[f"to stdout {x} True False {'-' * 300}"] == 1
        assert lines[f"to stderr {x} True False {'-' * 300}"] == 1
    assert "incubator" not in printed
    assert "log4j" not in printed


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


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("carry_over", [False, True], ids=["waits", "carries over"])
@pytest.mark.parametrize("state", ["None", "beam.DoFn.StateParam(SEEN)"], ids=["plain", "state"])
def test_ctrl_c_ends_a_thousand_hanging_calls_within_seconds(program, tmp_path, carry_over, state):
    process = program(f"""
        import asyncio
        from apache_beam.transforms import userstate
        class Hangs(beam.DoFn):
            SEEN = userstate.CombiningValueStateSpec("seen", combine_fn=sum)
            begun = 0
            async def process(self, element, seen={state}):
                if seen is not None:
                    seen.add(1)
                self.begun += 1
                if self.begun == 1000:
                    with open({str(tmp_path / "pid")!r}, "w") as file:
                        file.write(str(os.getpid()))
                    os.rename({str(tmp_path / "pid")!r}, {str(tmp_path / "running")!r})
                await asyncio.sleep(1000)
        hangs = sparkdrain.Concurrently(Hangs(), max_in_flight=1001, carry_over={carry_over})
        numbers = beam.FlatMap(lambda _: [(number, 0) for number in range(1000)])
        build = lambda p: p | beam.Create([1]) | numbers | beam.ParDo(hangs)
        run(build, "--streaming", "--slots=1")
    """)
    wait_for(tmp_path / "running", process)
    time.sleep(1)  # rounds go on meanwhile, if calls are carried over
    assert process.poll() is None
    family = with_descendants(process.pid)
    host = psutil.Process(int((tmp_path / "running").read_text()))
    assert host in family
    os.killpg(process.pid, signal.SIGINT)
    host.wait(5)
    _, printed = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(family, 20)
    assert not alive
    assert "KeyboardInterrupt" in printed


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """A program that loses its JVM in a batch job, and the next one in a stream: what it prints."""
    folder = tmp_path_factory.mktemp("lost")
    with programs(folder) as start:
        process = start(f"""
            import pathlib, psutil, sparkdrain.errors
            from apache_beam.transforms.periodicsequence import PeriodicImpulse
            from tests.support.manifests import manifests
            folder = pathlib.Path({str(folder / "checkpoints")!r})
            def kill(program):
                for process in psutil.Process(program).children(recursive=True):
                    if process.name() == "java":
                        process.kill()
            def die(x, program=os.getpid()):
                kill(program)
                time.sleep(1000)
            try:
                run(lambda p: p | beam.Create([1]) | beam.Map(die))
            except sparkdrain.errors.SparkDrainError as error:
                print(type(error).__name__, str(error).splitlines()[0])
            stream = beam.Pipeline(options=PipelineOptions([
                "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=off",
                "--slots=1", f"--checkpoint_dir={{folder}}", "--checkpoint_ms=200",
                "--job_name=lost",
            ]))
            _ = stream | PeriodicImpulse(fire_interval=0.05) | beam.Map(str)
            result = stream.run()
            deadline = time.monotonic() + 90
            while time.monotonic() < deadline:
                if len(manifests(folder, "lost")) >= 2:
                    break
                time.sleep(0.05)
            else:
                raise RuntimeError("the stream has made no checkpoints")
            kill(os.getpid())
            try:
                result.wait_until_finish()
            except RuntimeError as error:
                print(type(error).__name__, error)
        """)
        out, printed = process.communicate(timeout=300)
        batch, _, stream = out.strip().partition("\n")
        return folder / "checkpoints", batch, stream, printed


@pytest.mark.spark
def test_a_jvm_that_dies_fails_the_job_and_the_next_job_gets_a_new_one(lost):
    _, batch, stream, printed = lost
    assert batch.startswith(
        "SparkLost Spark's own process (the JVM) was lost while the job ran: it was killed "
        "by SIGKILL"
    ), printed
    assert stream, f"the stream did not lose its JVM after two checkpoints: {printed}"


@pytest.mark.spark
def test_a_stream_whose_jvm_dies_names_the_signal_the_option_and_the_folder(lost):
    folder, _, told, printed = lost
    assert told.startswith("SparkLost Spark's own process (the JVM) was lost"), printed
    assert "it was killed by SIGKILL, as the system does when memory is short" in told
    assert "Start the program again with --resume: the job goes on from checkpoint " in told
    assert f" in {folder}/lost." in told
    assert "report it" not in told
    assert "Python worker" not in told


def test_without_java_the_program_says_how_to_get_it(program, tmp_path):
    process = program(
        "run(lambda p: p | beam.Create([1]))", PATH=str(tmp_path), JAVA_HOME=str(tmp_path)
    )
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "sparkdrain.errors.BadSetup: JAVA_HOME is" in printed
    assert "Install Java 17 or later" in printed


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a program is told of each setup in which nothing can run, by the setup's name."""
    folder = tmp_path_factory.mktemp("setups")
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    elsewhere = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
    with programs(folder) as start:
        process = start(
            f"""
            import json
            def tell(name, *flags):
                try:
                    run(lambda p: p | beam.Create([1]), *flags)
                except sparkdrain.errors.BadSetup as error:
                    print(json.dumps([name, str(error)]), flush=True)
            home = os.environ.pop("JAVA_HOME", None)
            os.environ["JAVA_HOME"] = {str(folder)!r}
            tell("old Java")
            del os.environ["JAVA_HOME"]
            if home is not None:
                os.environ["JAVA_HOME"] = home
            for master in {[master for master, _ in MASTERS]!r}:
                tell(master, f"--spark_master_url={{master}}")
            """,
            HOME=str(folder),
            **dict.fromkeys(elsewhere, ""),
        )
        out, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed
        return dict(map(json.loads, out.splitlines()))


def test_a_java_that_is_too_old_is_named_before_it_is_started(told):
    assert "Java 11.0.2" in told["old Java"]
    assert "too old" in told["old Java"]


@pytest.mark.spark
@pytest.mark.parametrize(("master", "said"), MASTERS)
def test_a_master_that_is_not_there_is_named_at_once(told, master, said):
    assert said in told[master]
    assert "\tat " not in told[master]
