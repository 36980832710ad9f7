"""After a kill of anything no process is left, and the next start removes what is left on disk."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.leftovers import VICTIMS, Place, hosts, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def place():
    folder = tempfile.mkdtemp(prefix="s", dir="/tmp")
    place = Place(Path(folder))
    yield place
    for process in place.processes():
        process.kill()
    shutil.rmtree(folder)


def check(place: Place, program: subprocess.Popen[bytes], own: list[Path]) -> None:
    """Kill the driver if it is still there; then nothing is left after some seconds."""
    program.kill()
    program.wait()
    place.wait_for_none()
    next_one = place.start("end")
    assert next_one.wait(120) == 0
    place.wait_for_none()
    assert [path for path in own if path.exists()] == []
    assert list(place.temporary.rglob("*")) == []
    assert list(place.local.rglob("*")) == []


@pytest.mark.parametrize("victim", VICTIMS)
def test_after_a_kill_of_a_stream_nothing_is_left(place, victim):
    program = place.start("stream")
    manifests = place.marks / "checkpoints"
    wait_until(lambda: any(manifests.glob("*/manifests/*")), 120, 0.1)
    own = place.own_of_jvm()
    assert len(own) == 1
    assert any(place.local.iterdir())
    kill(VICTIMS[victim](place, program))
    time.sleep(1)
    check(place, program, own)
    assert any(manifests.glob("*/manifests/*")), "durable state stays"


def test_the_program_removes_what_a_jvm_that_was_killed_has_left(place):
    program = place.start("stream")
    manifests = place.marks / "checkpoints"
    wait_until(lambda: any(manifests.glob("*/manifests/*")), 120, 0.1)
    own = place.own_of_jvm()
    assert any(own[0].iterdir())
    kill(place.named("java"))
    assert program.wait(60) == 1
    place.wait_for_none()
    assert not own[0].exists()
    assert list(place.local.iterdir()) == list(place.temporary.iterdir()) == []


@pytest.mark.parametrize("victim", ["driver", "everything"])
def test_after_a_kill_of_a_batch_nothing_is_left(place, victim):
    program = place.start("batch")
    wait_until((place.marks / "batch").exists, 120, 0.1)
    own = place.own_of_jvm()
    kill(VICTIMS[victim](place, program))
    check(place, program, own)


@pytest.mark.parametrize("seconds", [0, 1, 2.5])
@pytest.mark.parametrize("victim", ["driver", "everything"])
def test_after_a_kill_while_a_job_starts_nothing_is_left(place, victim, seconds):
    program = place.start("batch")
    # Beam's folder of a pipeline that is made and not run yet stays, as docs/security.md says.
    wait_until(lambda: any(place.temporary.glob("sparkdrain-own-*/pipeline-*")), 120, 0.01)
    time.sleep(seconds)
    kill(VICTIMS[victim](place, program))
    check(place, program, [])


def test_what_spark_makes_after_the_kill_of_its_driver_is_known_to_the_next_start(place):
    program = place.start("starting")
    wait_until((place.marks / "starting").exists, 120, 0.1)
    (own,) = place.own_of_jvm()
    (folder,) = place.local.iterdir()
    program.kill()
    program.wait()
    place.wait_for_none()
    # As Spark does, whose threads go on while the JVM ends.
    (folder / "blockmgr").mkdir(parents=True, exist_ok=True)
    check(place, program, [own])


@pytest.mark.parametrize("part", ["host", "warden"])
def test_after_a_kill_of_a_host_or_its_warden_nothing_is_left(place, part):
    program = place.start("stream")
    manifests = place.marks / "checkpoints"
    wait_until(lambda: any(manifests.glob("*/manifests/*")), 120, 0.1)
    found = hosts(place)
    assert found
    kill(found if part == "host" else [each.parent() for each in found])
    time.sleep(2)
    assert program.poll() is None, "the job goes on from its checkpoint"
    check(place, program, place.own_of_jvm())
