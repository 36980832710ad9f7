"""Slots share a process of Go's, and need nothing of each other."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import go_slot
import grpc
import pytest
from go_slot import Slot
from test_go import built, ran

from sparkdrain.fnapi import services
from sparkdrain.fnapi.errors import HarnessLost
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """The worker binary of a program."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler here")
    return built(tmp_path_factory.mktemp("go"))


@pytest.fixture
def slot(binary, tmp_path):
    """Makes a slot's harness of the one job."""
    made = []

    def make() -> Slot:
        made.append(Slot(binary, tmp_path / "executor"))
        return made[-1]

    yield make
    for each in made:
        each.harnesses.close()
    # They end a while later, and the next test counts its own.
    wait_until(lambda: not workers())


def workers() -> list[int]:
    """The processes that run a worker binary."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_text(errors="replace").split("\0")[1:2] == ["--worker=true"]:
                found.append(int(file.parent.name))
    return found


def test_two_slots_share_a_process_which_ends_with_the_last_of_them(slot):
    first, second = slot(), slot()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: each.run(30), (first, second)))
    (pid,) = workers()
    for each in (first, second):
        assert "Goroutine Dump" in each.worker.status(60.0)
    first.harnesses.give_back(first.worker, keep=False)
    second.run()
    begun = time.monotonic()
    third = slot()
    third.run()
    assert time.monotonic() - begun < 2, "the process is there"
    assert workers() == [pid]
    for each in (second, third):
        each.harnesses.give_back(each.worker, keep=False)
    wait_until(lambda: not workers())
    assert not any("DataChannel" in text or "StateChannel" in text for text in second.logged)


def test_a_process_that_is_killed_is_lost_to_all_slots_and_the_next_one_is_shared_again(slot):
    first, second = slot(), slot()
    first.run()
    second.run()
    (pid,) = workers()
    os.kill(pid, signal.SIGKILL)
    for each in (first, second):
        told = wait_until(lambda each=each: each.worker.life.how_it_ended())
        assert "ended with the signal SIGKILL" in told
        wait_until(lambda each=each: each.worker.is_lost)
    third, fourth = slot(), slot()
    third.run()
    fourth.run()
    (other,) = workers()
    assert other != pid


def test_a_slot_that_has_started_the_process_is_killed_and_the_other_goes_on(
    slot, binary, tmp_path
):
    program = [sys.executable, go_slot.__file__, str(binary), str(tmp_path / "executor")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "ran\n"
        (pid,) = workers()
        second = slot()
        second.run()
        first.kill()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        second.run()
    assert workers() == [pid]


def test_a_slot_that_loses_its_harness_has_the_next_one_in_the_same_process(slot):
    first, second = slot(), slot()
    first.run()
    second.run()
    (pid,) = workers()
    for _ in range(5):
        first.worker.is_lost = True
        with pytest.raises(HarnessLost):
            while True:  # what came before is taken in first
                first.worker.wait()
        first.harnesses.give_back(first.worker)
        first.lend()
        first.run()
        second.run()
    assert workers() == [pid]


def test_a_lost_connection_for_elements_is_an_error_of_the_bundle(slot, monkeypatch):
    """Java's harness alone would say nothing."""

    def lose(_services, _elements, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")

    monkeypatch.setattr(services.SdkServices, "Data", lose)
    with pytest.raises(RuntimeError, match="process bundle failed"):
        slot().run()


@pytest.mark.spark
def test_the_slots_of_a_job_have_one_process_between_them(binary):
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            seen.add(len(workers()))

    with (
        server_process("--warm=off", "--spark-master-url=local[4]") as (_process, endpoint),
        ThreadPoolExecutor(1) as pool,
    ):
        looking = pool.submit(look)
        done = ran(binary, binary, endpoint)
        over.set()
        looking.result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen == {0, 1}
