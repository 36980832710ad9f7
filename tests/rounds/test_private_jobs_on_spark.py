"""What jobs keep to their user, in one program on a real Spark: passwords, files, side inputs.

A password is in the settings, other users may write the folder, the umask hides nothing, and Spark
encrypts its files.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

import sparkdrain

pytestmark = pytest.mark.spark

PLANTED = "HUNTER2-planted"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(sparkdrain.__file__).parent.parent)}

PROGRAM = """
import logging, os, pathlib, sys
os.umask(0)
logging.basicConfig(level=logging.INFO)
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

folder, *flags = sys.argv[1:]

class Mine(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--client_secret")

class Adds(beam.DoFn):
    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def __init__(self, password, fails):
        self._password, self._fails = password, fails

    def process(self, pair, sum_=beam.DoFn.StateParam(SUM)):
        sum_.write((sum_.read() or 0) + pair[1])
        if self._fails:
            raise ValueError("cannot log in with " + self._password)
        yield sum_.read()

def note(text, beside):
    found = [
        str(path) for path in pathlib.Path(folder, "local").rglob("*")
        if path.is_file() and b"plain-" in path.read_bytes()
    ]
    pathlib.Path(folder, text).write_text(repr((beside, found)))

def run(mode, *more):
    options = PipelineOptions([
        "--runner=SparkDrainRunner", "--spark_master_url=local[2]", "--progress=plain",
        "--slots=2", *more, *flags,
    ])
    secret = options.view_as(Mine).client_secret
    p = beam.Pipeline(options=options)
    beside = p | "Beside" >> beam.Create(["plain-" + "x" * 200_000, "plain-"])
    sums = p | beam.Create([("k", n) for n in range(5)]) | beam.ParDo(Adds(secret, mode == "fail"))
    most = sums | beam.CombineGlobally(max) | beam.Map(lambda n: f"{n}-{mode}")
    most | beam.Map(
        lambda text, beside: note(text, sorted(map(len, beside))), beam.pvalue.AsList(beside)
    )
    p.run().wait_until_finish()

kept = "--checkpoint_dir=file://" + os.path.join(folder, "checkpoints")
run("batch")
run("stream", "--streaming", "--job_name=..", kept)
with open("/proc/self/task/%d/children" % os.getpid()) as children:
    for child in children.read().split():
        with open("/proc/%s/cmdline" % child) as line:
            print(line.read().replace(chr(0), " "))
run("fail", "--streaming", "--job_name=failing", kept)
"""


@dataclass
class Ran:
    """A folder that all users may write, and what a program with jobs in it has printed."""

    folder: Path
    done: subprocess.CompletedProcess[str]

    @property
    def kept(self) -> Path:
        return self.folder / "checkpoints"


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Ran:
    return run_program(tmp_path_factory.mktemp("private"), ENVIRONMENT)


def run_program(home: Path, environment: dict[str, str], *flags: str) -> Ran:
    program = home / "program.py"
    program.write_text(PROGRAM)
    folder = home / "rash"
    folder.mkdir()
    folder.chmod(0o777)
    conf = (
        f"spark.my.password={PLANTED}",
        "spark.io.encryption.enabled=true",
        f"spark.local.dir={folder}/local",
    )
    done = subprocess.run(
        [
            *(sys.executable, str(program), str(folder), f"--client_secret={PLANTED}"),
            *(f"--spark_conf={each}" for each in conf),
            *flags,
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return Ran(folder, done)


def test_a_password_is_not_in_what_is_printed_nor_in_what_is_kept(ran):
    assert ran.done.returncode == 1
    assert "ValueError: cannot log in with ***" in ran.done.stderr
    assert "java" in ran.done.stdout
    for printed in (ran.done.stdout, ran.done.stderr):
        assert [line for line in printed.splitlines() if PLANTED in line] == []
    files = [path for path in ran.kept.rglob("*") if path.is_file()]
    assert any(path.suffix == ".manifest" for path in files)
    assert any(path.suffix == ".record" for path in files)
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
    listed = subprocess.run(
        [sys.executable, "-m", "sparkdrain.cli.main", "jobs", f"--checkpoint_dir={ran.kept}"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "failing" in listed.stdout
    assert PLANTED not in listed.stdout + listed.stderr


@pytest.mark.slow
def test_a_password_is_not_in_the_logs_of_executors(tmp_path):
    """Spark writes into them why a task has failed; the text of it is packed."""
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    environment = {**ENVIRONMENT, "SPARK_HOME": str(home)}
    master = "--spark_master_url=local-cluster[1,1,1024]"
    ran = run_program(tmp_path, environment, master)
    assert "ValueError: cannot log in with ***" in ran.done.stderr
    logs = {path: path.read_text() for path in home.glob("work/*/*/std*")}
    assert {path.name for path in logs} == {"stdout", "stderr"}
    packed = re.findall("sparkdrain-failure:([A-Za-z0-9+/=]+)", "".join(logs.values()))
    told = [base64.b64decode(each).decode() for each in packed]
    assert any("cannot log in with ***" in each for each in told)
    printed = [*told, *logs.values(), ran.done.stdout, ran.done.stderr]
    assert [line for text in printed for line in text.splitlines() if PLANTED in line] == []


def test_checkpoints_and_records_are_for_this_user_under_a_rash_umask(ran):
    assert f"Other users may write {ran.folder} (mode 0777)" in ran.done.stderr
    assert {"%2E%2E", "@runs"} <= set(os.listdir(ran.kept)) <= {"%2E%2E", "@runs", "failing"}
    assert list(ran.kept.glob("%2E%2E/manifests/*/*.manifest"))
    assert list(ran.kept.glob("%2E%2E/files/*"))
    for path in [ran.kept, *ran.kept.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_nothing_of_a_side_input_is_readable_where_spark_encrypts_its_files(ran, mode):
    note = ran.folder / f"10-{mode}"
    assert note.exists(), ran.done.stderr
    assert note.read_text() == repr(([6, 200_006], []))
