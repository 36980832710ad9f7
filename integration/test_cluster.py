"""A pipeline does the same on a cluster as in this process."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import pyspark
import pytest
from apache_beam import coders
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.util import Reshuffle
from apache_beam.transforms.window import Sessions, TimestampedValue
from driver_session import stop_session
from spark_cluster import HOME

from sparkdrain.errors import BadSetup, UserCodeError
from tests.stages.source_distribution import source_distribution

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

# As in a main program: executors cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Numbered(beam.DoFn):
    """Numbers the values of each key; how many there are does not depend on their order."""

    SEEN = ReadModifyWriteStateSpec("seen", coders.VarIntCoder())

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        number = (seen.read() or 0) + 1
        seen.write(number)
        yield element[0], number


def everything(p: beam.Pipeline, output: str) -> None:
    """Grouping, combining, side inputs, state, windows and joins in one pipeline."""
    numbers = p | beam.Create(range(2000)) | Reshuffle()
    keyed = numbers | beam.Map(lambda n: (f"key{n % 37}", n))
    sums = keyed | "Sum" >> beam.CombinePerKey(sum)
    names = p | "Names" >> beam.Create([(f"key{n}", f"name{n}") for n in range(40)])
    named = sums | "Name" >> beam.Map(
        lambda pair, names: (names[pair[0]], pair[1]), beam.pvalue.AsDict(names)
    )
    counted = keyed | beam.ParDo(Numbered()) | "Highest" >> beam.CombinePerKey(max)
    sessions = (
        numbers
        | beam.Map(lambda n: TimestampedValue((n % 3, 1), n * 7 % 500 * 10))
        | beam.WindowInto(Sessions(25))
        | "Per session" >> beam.CombinePerKey(sum)
        | "All" >> beam.WindowInto(beam.window.GlobalWindows())
    )
    joined = {"sums": sums, "counted": counted} | beam.CoGroupByKey()
    _ = (
        (named, sessions, joined | beam.Map(lambda pair: (pair[0], sorted(map(str, pair[1])))))
        | beam.Flatten()
        | beam.Map(repr)
        | beam.io.WriteToText(output)
    )


def lines(directory: Path, name: str) -> list[str]:
    return sorted(
        line for file in directory.glob(f"{name}*") for line in file.read_text().splitlines()
    )


def test_a_pipeline_gives_the_same_results_on_a_cluster_as_on_this_machine(on, cluster, tmp_path):
    with on("local[2]") as p:
        everything(p, str(tmp_path / "here"))
    here = lines(tmp_path, "here")
    assert len(here) == 37 + 37 + len([line for line in here if line.startswith("(0,")]) * 3
    with on(cluster.url) as p:
        everything(p, str(tmp_path / "batch"))
    assert lines(tmp_path, "batch") == here
    with on(cluster.url, "--streaming") as p:
        everything(p, str(tmp_path / "stream"))
    assert lines(tmp_path, "stream") == here


def test_both_hosts_work_with_the_package_that_was_sent(on, cluster, tmp_path):
    def where(_):
        import sparkdrain  # noqa: PLC0415 - on the executor

        return f"{os.environ['SPARK_LOCAL_IP']} {sparkdrain.__file__}"

    with on(cluster.url, "--slots=4") as p:
        places = p | beam.Create(range(100)) | Reshuffle() | beam.Map(where)
        _ = places | beam.io.WriteToText(str(tmp_path / "out"))
    found = {tuple(line.split()) for line in lines(tmp_path, "out")}
    assert {host for host, _ in found} == set(cluster.hosts)
    assert all(".zip/" in file for _, file in found)


def test_the_users_exception_comes_first_and_names_the_host(on, cluster):
    def boom(_):
        msg = "far away"
        raise ValueError(msg)

    with pytest.raises(UserCodeError) as failed, on(cluster.url) as p:
        _ = p | beam.Create([1]) | "Boom" >> beam.Map(boom)
    text = str(failed.value)
    assert text.startswith("ValueError: far away [while running 'Boom']\n")
    assert f"on {socket.gethostname()}" in text


def test_user_code_that_has_raised_is_not_asked_again(on, cluster, tmp_path):
    calls = tmp_path / "calls"

    def boom(_):
        with calls.open("a") as file:
            file.write("called\n")
        msg = "once is enough"
        raise ValueError(msg)

    with pytest.raises(UserCodeError, match="once is enough"), on(cluster.url) as p:
        _ = p | beam.Create([1]) | beam.Map(boom)
    # Spark would ask four times.
    assert len(calls.read_text().splitlines()) == 1


FAKE = """#!{python}
import runpy, sys
import sparkdrain.stages.batch.task
class Version(tuple):
    major, minor, micro = 3, 99, 0
sys.version_info = Version((3, 99, 0, "final", 0))
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)
"""


@pytest.fixture
def executors_python(monkeypatch):
    """Sets which Python executors run, for sessions that are started in the test."""

    def use(path: Path | str) -> None:
        stop_session()
        monkeypatch.setenv("PYSPARK_PYTHON", str(path))

    yield use
    stop_session()


@pytest.mark.slow
def test_another_python_on_the_executors_is_a_bad_setup_that_names_both(
    on, cluster, tmp_path, executors_python
):
    other = tmp_path / "python3.99"
    other.write_text(FAKE.format(python=sys.executable))
    other.chmod(0o755)
    executors_python(other)
    ours = "{}.{}".format(*sys.version_info[:2])
    with pytest.raises(BadSetup) as failed, on(cluster.url) as p:
        _ = p | beam.Create([1])
    assert f"run Python 3.99 ({other}), but this program runs Python {ours}." in str(failed.value)


@pytest.mark.slow
def test_another_pyspark_on_the_executors_is_a_bad_setup_that_names_both(
    on, cluster, tmp_path, executors_python
):
    package = tmp_path / "pyspark"
    package.mkdir()
    for entry in HOME.iterdir():
        if entry.name != "version.py":
            (package / entry.name).symlink_to(entry)
    (package / "version.py").write_text('__version__: str = "3.9.0"\n')
    other = tmp_path / "python"
    first = f"PYTHONPATH={tmp_path}:$PYTHONPATH"
    other.write_text(f'#!/bin/sh\n{first} exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    executors_python(other)
    p = on(cluster.url)
    _ = p | beam.Create([1])
    with pytest.raises(BadSetup) as failed:
        p.run().wait_until_finish()
    # Before any message of Spark's, which the other one might not be able to read.
    assert f"cannot start a Python worker with {other}." in str(failed.value)
    ours = pyspark.__version__
    assert f"executors have pyspark 3.9.0, but this program has {ours}." in str(failed.value)


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["sparkdrain.stages.daemon", "pyspark.daemon"])
def test_a_python_without_beam_is_a_bad_setup_that_names_it(
    on, cluster, tmp_path, executors_python, daemon
):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no site-packages
    bare.chmod(0o755)
    executors_python(bare)
    p = on(cluster.url, f"--spark_conf=spark.python.daemon.module={daemon}")
    _ = p | beam.Create([1])
    with pytest.raises(BadSetup) as failed:
        p.run().wait_until_finish()
    assert f"with {bare}." in str(failed.value)
    assert "No module named '" in str(failed.value)


@pytest.mark.slow
def test_a_python_that_is_not_on_the_executors_is_a_bad_setup(
    on, cluster, tmp_path, executors_python
):
    executors_python(tmp_path / "nowhere")
    with pytest.raises(BadSetup, match=f"worker with {tmp_path}/nowhere"), on(cluster.url) as p:
        _ = p | beam.Create([1])


@pytest.mark.slow
def test_a_package_that_a_job_brings_reaches_both_hosts(on, cluster, tmp_path):
    package = source_distribution(tmp_path, "brought", "1.0", "def answer():\n    return 41\n")

    def ask(_):
        import brought  # noqa: PLC0415 - on the executor

        return f"{os.environ['SPARK_LOCAL_IP']} {brought.answer()}"

    with on(cluster.url, "--slots=4", f"--extra_package={package}") as p:
        answers = p | beam.Create(range(100)) | Reshuffle() | beam.Map(ask)
        _ = answers | beam.io.WriteToText(str(tmp_path / "out"))
    assert set(lines(tmp_path, "out")) == {f"{host} 41" for host in cluster.hosts}


@pytest.mark.slow
def test_slots_on_other_hosts_tell_how_far_they_are(on, cluster, monkeypatch, capsys):
    monkeypatch.setattr("sparkdrain.stages.telling.progress_display._PLAIN_SECONDS", 0.2)

    def slowly(number: int) -> int:
        time.sleep(0.01)
        return number

    with on(cluster.url, "--progress=plain") as p:
        _ = p | beam.Create(range(400)) | Reshuffle() | "Slow" >> beam.Map(slowly)
    printed = capsys.readouterr().err
    live = re.findall(r"^level \d of \d \(Slow\): (\d+) elements, \d+/s", printed, re.MULTILINE)
    assert [int(count) for count in live if 0 < int(count) < 400]
    assert "400 elements" not in live
    assert " done in " in printed
