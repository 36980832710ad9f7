"""Fixtures for tests with real services: a Spark cluster with two hosts, and jars for others."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from driver_session import stop_session
from spark_cluster import EXECUTOR_OPTIONS, SparkCluster

from tests.support.registries import registries_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_FETCHING = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to fetch jars; other tests run meanwhile."""
    config = session.config
    is_worker = hasattr(config, "workerinput")  # of xdist: the process that started it fetches
    if not is_worker and not config.option.collectonly:
        config.stash[_FETCHING] = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fetch_jars.py")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a test that needs the jars tries again, and tells
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no process behind."""
    fetching = session.config.stash.get(_FETCHING, None)
    if fetching is not None:
        fetching.terminate()
        fetching.wait()


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """Two addresses of this machine, which Spark takes for two hosts, with one executor each.

    Executors run this Python, without this package.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        with SparkCluster(workers=2, cores=1) as running:
            yield running
            stop_session()


@pytest.fixture(scope="session")
def on() -> Callable[..., beam.Pipeline]:
    """Makes a pipeline for a Spark master; takes further flags."""

    def make(master: str, *flags: str) -> beam.Pipeline:
        own = [
            "--runner=sparkdrain.SparkDrainRunner",
            f"--spark_master_url={master}",
            "--progress=off",
            EXECUTOR_OPTIONS,
        ]
        return beam.Pipeline(options=PipelineOptions([*own, *flags]))

    return make


@pytest.fixture(autouse=True, scope="module")
def _registries_restored() -> Iterator[None]:
    with registries_restored():
        yield


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a test and of the programs that it starts."""
    made = tmp_path / "room"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return made
