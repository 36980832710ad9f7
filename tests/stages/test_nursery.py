"""Spark's daemon is forked from a process that has imported everything, or does so itself."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from pyspark.serializers import UTF8Deserializer

import sparkdrain
from sparkdrain.stages.daemon import NUMBER_BYTES
from sparkdrain.stages.workers.handover import (
    NURSERY_VARIABLE,
    Identity,
    close_all,
    import_alike,
    receive,
)
from sparkdrain.stages.workers.head_start import start_nursery

SOURCES = Path(sparkdrain.__file__).parent.parent
SECONDS = 60
BY_ITSELF = 1  # PySpark's daemon never ends with another code


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(SOURCES), str(SOURCES.parent)])
    # pytest changes this one from test to test.
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "YES", **more}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("n")


@pytest.fixture(scope="module")
def nursery(home):
    process = start_nursery(str(home), environment())
    yield process
    process.stdin.close()
    process.wait(SECONDS)


@pytest.fixture
def sockets():
    """A directory whose name leaves room for one of a socket, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory


@pytest.fixture
def daemon(home, sockets):
    """Starts a daemon as Spark does; answers it when it listens."""
    started = []

    def start(**more: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sparkdrain.stages.daemon", "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(
                PYTHON_UNIX_DOMAIN_ENABLED="true",
                PYTHON_WORKER_FACTORY_SOCK_DIR=sockets,
                **{NURSERY_VARIABLE: str(home / "nursery"), **more},
            ),
        )
        started.append(process)
        assert UTF8Deserializer().loads(process.stdout).startswith(sockets)
        return process

    yield start
    for process in started:
        process.stdin.close()
        process.wait(SECONDS)
        process.stdout.close()


def children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


def test_the_daemon_is_a_child_of_the_nursery_and_ends_when_spark_says_so(nursery, daemon):
    spark_knows = daemon()
    (replacement,) = children(nursery)
    assert replacement.is_running()
    spark_knows.stdin.close()
    assert spark_knows.wait(SECONDS) == BY_ITSELF
    assert children(nursery) == []
    # And once more: a nursery is not used up.
    daemon()
    assert len(children(nursery)) == 1


def test_who_ends_the_process_that_spark_knows_ends_the_daemon(nursery, daemon):
    spark_knows = daemon()
    (replacement,) = children(nursery)
    spark_knows.send_signal(signal.SIGTERM)
    # PySpark's daemon tells where it listens before it heeds the signal.
    assert spark_knows.wait(SECONDS) in {BY_ITSELF, 128 + signal.SIGTERM}
    replacement.wait(SECONDS)


def test_who_ends_that_process_before_it_knows_the_daemon_ends_the_daemon(sockets):
    replacement = subprocess.Popen(["sleep", str(SECONDS)])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{sockets}/nursery")
        listener.listen()
        spark_knows = subprocess.Popen(
            [sys.executable, "-m", "sparkdrain.stages.daemon", "pyspark.worker"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment(**{NURSERY_VARIABLE: f"{sockets}/nursery"}),
        )
        connection, _ = listener.accept()
    with connection:
        _, streams = receive(connection)
        close_all(streams)
        spark_knows.send_signal(signal.SIGTERM)
        connection.sendall(replacement.pid.to_bytes(NUMBER_BYTES, "big"))
        assert replacement.wait(SECONDS) == -signal.SIGTERM
        connection.sendall((128 + signal.SIGTERM).to_bytes(NUMBER_BYTES, "big"))
        assert spark_knows.wait(SECONDS) == 128 + signal.SIGTERM


def test_a_daemon_that_is_killed_takes_the_process_that_spark_knows_with_it(nursery, daemon):
    spark_knows = daemon()
    (replacement,) = children(nursery)
    replacement.kill()
    assert spark_knows.wait(SECONDS) == 128 + signal.SIGKILL
    assert spark_knows.stdout.read() == b""


def test_a_nursery_ends_with_the_program_and_takes_its_daemons_along(daemon, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    nursery = start_nursery(str(home), environment())
    spark_knows = daemon(**{NURSERY_VARIABLE: str(home / "nursery")})
    (replacement,) = children(nursery)
    nursery.stdin.close()
    assert nursery.wait(SECONDS) == 0
    assert spark_knows.wait(SECONDS) == 1
    psutil.wait_procs([replacement], SECONDS)
    assert not replacement.is_running()
    assert not home.exists()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({NURSERY_VARIABLE: "/nowhere"}, id="no nursery"),
        pytest.param({"OMP_NUM_THREADS": "7"}, id="another environment"),
    ],
)
def test_otherwise_the_daemon_imports_everything_itself(nursery, daemon, more):
    spark_knows = daemon(**more)
    assert children(nursery) == []
    spark_knows.stdin.close()
    assert spark_knows.wait(SECONDS) == BY_ITSELF


HERE = Identity(["program"], "/", [str(SOURCES)], {"HOME": "/home/me", "SPARK_HOME": "/spark"})


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ["daemon", "pyspark.worker"]},
        {"environ": {**HERE.environ, "SPARK_HOME": "/elsewhere", "PWD": "/", "_": "/bin/java"}},
        {"environ": {**HERE.environ, "SPARKDRAIN_SESSION": "session"}},
        {"path": ["/pyspark/python/lib/pyspark.zip", str(SOURCES), str(SOURCES), "/nowhere"]},
    ],
)
def test_what_imports_cannot_see_may_differ(change):
    assert import_alike(HERE, dataclasses.replace(HERE, **change), "/pyspark")


@pytest.mark.parametrize(
    "change",
    [
        {"directory": "/tmp"},
        {"environ": {}},
        {"environ": {**HERE.environ, "LD_PRELOAD": "libmine.so"}},
        {"environ": {**HERE.environ, "PYTHONHASHSEED": "0"}},
        {"environ": {**HERE.environ, "SPARKDRAIN_PACKAGES": "archive.zip"}},
        {"path": [str(SOURCES.parent), str(SOURCES)]},
        {"path": []},
    ],
)
def test_what_imports_may_see_must_not_differ(change):
    assert not import_alike(HERE, dataclasses.replace(HERE, **change), "/pyspark")


def test_a_place_counts_from_the_moment_that_there_is_code(tmp_path):
    sent = dataclasses.replace(HERE, path=[str(tmp_path), *HERE.path])
    (tmp_path / "session-1a2b").touch()
    assert import_alike(HERE, sent, "/pyspark")
    (tmp_path / "mine.py").touch()
    assert not import_alike(HERE, sent, "/pyspark")


def test_an_environment_that_is_reached_by_a_link_is_the_same(tmp_path):
    spark = tmp_path / "real/pyspark"
    spark.mkdir(parents=True)
    (spark / "pyspark.zip").touch()
    (tmp_path / "link").symlink_to("real")
    by_link = dataclasses.replace(HERE, path=[str(tmp_path / "link"), *HERE.path])
    real = [str(spark / "pyspark.zip"), str(tmp_path / "real"), *HERE.path]
    sent = dataclasses.replace(HERE, path=real)
    assert import_alike(by_link, sent, str(tmp_path / "link/pyspark"))
    assert not import_alike(by_link, sent, "/pyspark")
