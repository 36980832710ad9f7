"""Spark's JVM is started quietly, and what it prints comes through."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.own_folder import OwnFolder
from sparkdrain.stages.cluster.context import spark_defaults
from sparkdrain.stages.cluster.jvm import Launched, PipePump, _Start, quiet, start_jvm, with_place
from sparkdrain.stages.workers.sent_files import code_archive

NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


def passed_on(chunks: list[bytes]) -> str:
    """What comes out when ``chunks`` are printed one after the other."""
    reading, writing = os.pipe()
    taken: list[str] = []
    pump = PipePump(reading, taken.append)
    thread = threading.Thread(target=pump.run)
    thread.start()
    for chunk in chunks:
        os.write(writing, chunk)
    os.close(writing)
    thread.join(20)
    os.close(reading)
    return "".join(taken)


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=8))
def test_everything_that_is_printed_comes_through_in_order(chunks):
    assert passed_on(chunks) == b"".join(chunks).decode(errors="replace")


@given(text=st.text(max_size=40), cut=st.integers(0, 40))
def test_characters_may_be_cut_in_two(text, cut):
    data = text.encode(errors="surrogatepass")
    chunks = [chunk for chunk in (data[:cut], data[cut:]) if chunk]
    assert passed_on(chunks) == data.decode(errors="replace")


@pytest.mark.parametrize("cut", range(1, len(NOISE), 7))
def test_what_says_nothing_is_left_out(cut):
    chunks = [b"before\n", NOISE[:cut], NOISE[cut:], b"WARNING: mine\nafter"]
    assert passed_on(chunks) == "before\nWARNING: mine\nafter"


def test_a_line_that_is_not_complete_does_not_wait_for_its_end():
    reading, writing = os.pipe()
    taken = threading.Event()
    pump = PipePump(reading, lambda text: taken.set() if text == "50 %" else None)
    thread = threading.Thread(target=pump.run)
    thread.start()
    os.write(writing, b"50 %")
    assert taken.wait(20)
    os.close(writing)
    thread.join(20)
    os.close(reading)


def test_sparks_log_is_left_to_a_user_who_configures_it(tmp_path):
    def options(**environ: str) -> str:
        return quiet(environ)["SPARK_SUBMIT_OPTS"]

    assert "log4j2.configurationFile" in options()
    assert options(SPARK_SUBMIT_OPTS="-Dlog4j2.x=1") == "-Dlog4j2.x=1"
    assert options(SPARK_SUBMIT_OPTS="-Xss4m").startswith("-Xss4m -Dlog4j2.configurationFile=")
    (tmp_path / "log4j2.properties").touch()
    assert options(SPARK_CONF_DIR=str(tmp_path)) == ""


def test_the_environment_of_the_program_stays_as_it_is():
    environ = {"SPARK_SUBMIT_OPTS": "-Xss4m", "HOME": "/home/me"}
    assert quiet(environ)["HOME"] == "/home/me"
    assert environ == {"SPARK_SUBMIT_OPTS": "-Xss4m", "HOME": "/home/me"}


def test_temporary_files_go_to_a_folder_of_their_own_unless_the_user_names_one():
    assert with_place({}, "/own") == {"SPARK_SUBMIT_OPTS": "-Djava.io.tmpdir=/own"}
    assert with_place({"SPARK_SUBMIT_OPTS": "-Xss4m"}, "/own") == {
        "SPARK_SUBMIT_OPTS": "-Xss4m -Djava.io.tmpdir=/own"
    }
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        given = {name: "-Djava.io.tmpdir=/mine"}
        assert with_place(given, "/own") == given


@pytest.fixture
def own(tmp_path):
    folder = OwnFolder.make([str(tmp_path)], for_sockets=False)
    yield folder
    folder.remove()


@pytest.mark.parametrize("local", [True, False])
def test_local_files_of_spark_go_with_the_folder_of_the_jvm_unless_a_cluster_knows_theirs(
    own, tmp_path, local
):
    start = _Start()
    start.keep_files_in(own, local=local)
    start["env"] = {"SPARK_LOCAL_DIRS": f"{tmp_path}/a,{tmp_path}/b"}
    given = start["env"]["SPARK_LOCAL_DIRS"].split(",")
    assert start["pass_fds"] == (own.lock,), "the JVM keeps the folder from being swept"
    if not local:
        assert given == [f"{tmp_path}/a", f"{tmp_path}/b"]
        return
    assert [str(Path(folder).parent) for folder in given] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    own.remove()
    assert [folder for folder in given if Path(folder).exists()] == []


def test_places_that_cannot_be_written_are_left_to_spark(own, tmp_path):
    (tmp_path / "file").touch()
    start = _Start()
    start.keep_files_in(own, local=True)
    start["env"] = {"SPARK_LOCAL_DIRS": f"{tmp_path}/file"}
    assert start["env"]["SPARK_LOCAL_DIRS"] == f"{tmp_path}/file"


@pytest.mark.parametrize("ended", [True, False])
def test_files_of_a_jvm_that_was_killed_are_removed_and_those_of_a_living_one_stay(own, ended):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        launched = Launched((), SimpleNamespace(proc=process), -1, own)
        if ended:
            process.kill()
            process.wait()
        launched.clean_up()
        assert Path(own.path).exists() is not ended


def test_sparks_scripts_are_told_where_spark_is_unless_the_user_says_so():
    start = _Start()
    start["env"] = {}
    assert Path(start["env"]["SPARK_HOME"], "bin", "spark-submit").is_file()
    start["env"] = {"SPARK_HOME": "/my/spark"}
    assert start["env"]["SPARK_HOME"] == "/my/spark"


@pytest.fixture
def jvms(monkeypatch):
    """Takes the place of all JVMs; tells what happens to them."""
    told: list[str] = []

    class Jvm:
        def __init__(self, properties) -> None:
            self.properties = tuple(properties)

        def use(self) -> None:
            told.append(f"use {self.properties[0][1]}")

        def end(self) -> None:
            told.append(f"end {self.properties[0][1]}")

    monkeypatch.setattr("sparkdrain.stages.cluster.jvm.launch", Jvm)
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    return told, Jvm


@pytest.mark.parametrize(
    ("ahead", "there", "happens"),
    [
        (None, False, ["use 2g"]),
        ("2g", False, ["use 2g"]),
        ("8g", False, ["end 8g", "use 2g"]),
        ("2g", True, ["end 2g"]),
        (None, True, []),
    ],
)
def test_a_jvm_that_was_started_ahead_is_used_if_it_is_what_is_wanted(
    jvms, monkeypatch, ahead, there, happens
):
    told, jvm = jvms
    if there:
        monkeypatch.setattr("pyspark.SparkContext._gateway", object())
    start_jvm([("spark.driver.memory", "2g")], ahead and jvm([("spark.driver.memory", ahead)]))
    assert told == happens


def test_what_stands_in_spark_defaults_is_known(tmp_path):
    text = "# spark.commented 1\nspark.driver.memory 3g\n\n  spark.master=local\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert spark_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.driver.memory",
        "spark.master",
    }
    assert spark_defaults({}) == set()
    assert spark_defaults({"SPARK_HOME": str(tmp_path)}) == set()


def test_the_archive_for_executors_is_importable_and_named_by_its_content(tmp_path, python):
    archive = code_archive(tmp_path)
    assert code_archive(tmp_path).name == archive.name
    ask = (
        "import sparkdrain.stages.workers.packages as p, timers_state as t; "
        "print(p.__file__, t.__file__)"
    )
    done = python("-P", "-c", ask, PYTHONPATH=str(archive))
    assert done.stdout.count(archive.name) == 2, done.stderr
