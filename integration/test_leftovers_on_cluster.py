"""After a kill of anything no process of the job is left on any host of a cluster, and no file."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_cluster import EXECUTOR_OPTIONS, SparkCluster

from tests.support.leftovers import SECONDS, VICTIMS, Place, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]


# Of an application that has ended, Spark's workers keep what it printed and what it fetched.
KEPT = re.compile(r"stdout|stderr|sparkdrain-[0-9a-f]+\.zip")


@pytest.fixture
def on_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Place, SparkCluster]]:
    """A cluster whose hosts write into the place's folder for temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="s", dir=tempfile.gettempdir()))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("TMPDIR", str(folder / "t"))
    with SparkCluster(workers=2, cores=1) as cluster:
        place = Place(folder, cluster.url, (EXECUTOR_OPTIONS,))
        yield place, cluster
        kill(place.processes())
    shutil.rmtree(folder)


@pytest.mark.parametrize("victim", [*VICTIMS, "executors"])
def test_after_a_kill_of_a_stream_nothing_is_left_on_hosts(on_cluster, victim):
    place, cluster = on_cluster
    program = place.start("stream")
    manifests = place.marks / "checkpoints"
    wait_until(lambda: any(manifests.glob("*/manifests/*")), 120, 0.1)
    executors = place.named("CoarseGrainedExecutorBackend")
    assert len(executors) == 2
    kill(executors if victim == "executors" else VICTIMS[victim](place, program))
    time.sleep(1)
    program.kill()
    program.wait()
    place.wait_for_none()
    wait_until(lambda: not cluster.executors(), SECONDS, 0.1)
    assert place.start("end").wait(120) == 0
    place.wait_for_none()
    assert list(place.temporary.iterdir()) == []
    wait_until(lambda: not any(files_in(cluster.local_folders())), SECONDS, 0.1)
    assert [file for file in files_in(cluster.work_folders()) if not KEPT.match(file.name)] == []


def files_in(folders: Iterable[Path]) -> Iterator[Path]:
    return (each for folder in folders for each in folder.rglob("*") if not each.is_dir())
