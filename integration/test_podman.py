"""Stages of Python, Java and Go in containers that podman runs, from images made here."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.external import JavaExternalTransform
from containers import GO_IMAGE, JAVA_IMAGE, NEEDED, PYTHON_IMAGE, Engine
from java_expansion import expansion_service
from test_go import built, ran

from sparkdrain.errors import WorkerLost
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    """A ``docker``."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing else'}")
    engine = Engine(tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def in_python(engine) -> list[str]:
    """The flags of a job whose stages run in containers of Python."""
    engine.make_python()
    return ["--environment_type=DOCKER", f"--environment_config={PYTHON_IMAGE}", engine.flag]


def test_python_stages_run_in_containers_that_are_gone_afterwards(on, engine, in_python):
    def where(_: object) -> str:
        return os.environ.get("IN_IMAGE", "nowhere")

    with on("local[2]", *in_python) as pipeline:
        pairs = pipeline | beam.Create([(n % 3, n) for n in range(300)])
        sums = pairs | beam.CombinePerKey(sum)
        assert_that(sums, equal_to([(key, sum(range(key, 300, 3))) for key in range(3)]))
        images = pairs | beam.Map(where) | beam.Distinct()
        assert_that(images, equal_to(["python"]), "in the image")
    wait_until(lambda: engine.running() == [], 90.0)


def _slot_of(container: str) -> int:
    """The process that has started a container: the parent of its guard."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode().split("\0")
            if "-I" in command and f"--name={container}" in command:
                return int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    raise AssertionError(container)


def test_a_slot_that_is_killed_fails_its_job_and_leaves_no_container(on, engine, in_python):
    killed: list[str] = []
    over = threading.Event()

    def kill_the_slot(door: socket.socket) -> None:
        line, _ = door.accept()
        with line:
            killed.extend(engine.running())
            os.kill(_slot_of(killed[0]), signal.SIGKILL)
            over.wait(300)

    with socket.create_server(("localhost", 0)) as door:
        port = door.getsockname()[1]

        def wait(number: int) -> int:
            # The container has the network of this machine.
            with socket.create_connection(("localhost", port)) as line:
                line.recv(1)  # nothing comes
            return number

        threading.Thread(target=kill_the_slot, args=(door,), daemon=True).start()
        pipeline = on("local[1]", *in_python)
        _ = pipeline | beam.Create([1, 2, 3]) | beam.Map(wait)
        # Spark gives a task one attempt on this machine.
        with pytest.raises(WorkerLost):
            pipeline.run().wait_until_finish()
        wait_until(lambda: engine.running() == [], 90.0)
        over.set()
    assert len(killed) == 1


def test_java_stages_run_in_containers(on, engine, tmp_path):
    engine.make_java()
    with (
        expansion_service(tmp_path, JAVA_IMAGE) as service,
        on("local[2]", engine.flag) as pipeline,
    ):
        pairs = pipeline | beam.Create([("a", n) for n in range(100)]).with_output_types(
            tuple[str, int]
        )
        totals = pairs | JavaExternalTransform("Totals", service).of(2)
        assert_that(totals | beam.Map(lambda pair: pair), equal_to([("a", 9900)]))
    assert engine.times_run(JAVA_IMAGE) == 1
    wait_until(lambda: engine.running() == [], 90.0)


def test_a_go_program_runs_in_one_container_for_two_slots(engine, tmp_path, monkeypatch):
    """Its image has the program of Beam's own images, which fetches the worker binary."""
    monkeypatch.setenv("CGO_ENABLED", "0")  # no library is in the image
    engine.make_go()
    binary = built(tmp_path)
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    in_go = ["--environment_type=DOCKER", f"--environment_config={GO_IMAGE}"]
    with server_process("--warm=off", "--spark-master-url=local[2]") as (_process, endpoint):
        done = ran(binary, binary, endpoint, *in_go)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "read 1000\n"
    assert engine.times_run(GO_IMAGE) == 1
    wait_until(lambda: engine.running() == [], 90.0)
