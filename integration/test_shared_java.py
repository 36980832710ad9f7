"""Two slots have harnesses of Beam's in one JVM, and need nothing of each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import java_slot
import pytest
from java_slot import Slot

from sparkdrain.fnapi.java import can_share, java_program, thread_group
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def executor(tmp_path):
    if not can_share(java_program()):
        pytest.skip("this Java cannot be shared")
    return tmp_path / "executor"


@pytest.fixture
def slot(executor):
    """Makes a slot's harness of the one job."""
    made = []

    def make() -> Slot:
        made.append(Slot(executor))
        return made[-1]

    yield make
    for each in made:
        each.harnesses.close()


def jvms_in(executor: Path) -> list[int]:
    """The JVMs whose slots look in a folder."""
    found = []
    for told in executor.glob("*"):
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_text(errors="replace").split("\0")
            except OSError:
                continue
            if words[0].endswith("java") and any(told.read_text() in each for each in words):
                found.append(int(file.parent.name))
    return found


def test_two_slots_share_a_jvm_which_ends_with_the_last_of_them(slot, executor):
    first, second = slot(), slot()
    first.run()
    second.run()
    (jvm,) = jvms_in(executor)
    for each in (first, second):
        status = each.worker.status(60.0)
        assert f",{thread_group(each.worker.id)}]" in status
    start = time.monotonic()
    first.harnesses.give_back(first.worker, keep=False)
    print("ended in", time.monotonic() - start)
    assert first.worker.torn_down.is_set()
    assert not second.worker.torn_down.is_set()
    second.run()
    third = slot()
    third.run()
    assert jvms_in(executor) == [jvm]
    third.harnesses.give_back(third.worker, keep=False)
    second.run()
    second.harnesses.give_back(second.worker, keep=False)
    assert second.worker.torn_down.is_set()
    wait_until(lambda: not jvms_in(executor))


def test_a_jvm_that_is_killed_is_lost_to_all_slots_and_the_next_one_is_shared_again(slot, executor):
    first, second = slot(), slot()
    first.run()
    second.run()
    (jvm,) = jvms_in(executor)
    os.kill(jvm, signal.SIGKILL)
    for each in (first, second):
        told = wait_until(lambda each=each: each.worker._how_it_ended())
        assert "ended with the signal SIGKILL" in told
        wait_until(lambda each=each: each.worker.is_lost)
    third, fourth = slot(), slot()
    third.run()
    fourth.run()
    (other,) = jvms_in(executor)
    assert other != jvm


def test_a_slot_that_has_started_the_jvm_is_killed_and_the_other_goes_on(slot, executor):
    program = [sys.executable, java_slot.__file__, str(executor)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "ran\n"
        (jvm,) = jvms_in(executor)
        second = slot()
        second.run()
        first.kill()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        second.run()
    assert jvms_in(executor) == [jvm]


def test_a_jvm_that_stands_still_while_it_connects_is_not_lost(slot, executor):
    """As on a machine that has too much to do."""
    one = slot()
    port = f":{int(one.harnesses.endpoint_of(one.worker).rpartition(':')[2]):04X}"
    (jvm,) = wait_until(lambda: jvms_in(executor))
    stopped: list[str] = []
    has_run = threading.Event()

    def stop_at_each_connection() -> None:
        while not has_run.wait(0.0005):
            _, *lines = Path(f"/proc/{jvm}/net/tcp6").read_text().splitlines()
            for _, own, other, state, *_ in map(str.split, lines):
                if other.endswith(port) and state == "01" and own not in stopped:
                    stopped.append(own)
                    os.kill(jvm, signal.SIGSTOP)
                    time.sleep(12)
                    os.kill(jvm, signal.SIGCONT)

    stops = threading.Thread(target=stop_at_each_connection)
    stops.start()
    try:
        one.run()
    finally:
        has_run.set()
        stops.join()
    assert len(stopped) >= 4, "log, control, status and data"
