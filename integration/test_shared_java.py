"""Two slots have harnesses of Beam's in one JVM, and need nothing of each other."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import java_slot
import pytest
from java_slot import Slot

from sparkdrain.fnapi import services, worker
from sparkdrain.fnapi.errors import HarnessLost
from sparkdrain.fnapi.java import can_share, java_program
from sparkdrain.fnapi.public_name import thread_group
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
    for folder in filter(None, (told.read_text() for told in executor.glob("*"))):
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_text(errors="replace").split("\0")
            except OSError:
                continue
            if words[0].endswith("java") and any(folder in each for each in words):
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
    first.harnesses.give_back(first.worker, keep=False)
    first.harnesses.close()  # waits until the harness has ended, or has said that all is torn down
    assert not second.worker.life.torn_down.is_set()
    second.run()
    third = slot()
    third.run()
    assert jvms_in(executor) == [jvm]
    third.harnesses.give_back(third.worker, keep=False)
    wait_until(lambda: threads_of(jvm).count("MemoryMonitor\n") == 1)
    second.run()
    second.harnesses.give_back(second.worker, keep=False)
    wait_until(lambda: not jvms_in(executor))


def test_a_jvm_that_is_killed_is_lost_to_all_slots_and_the_next_one_is_shared_again(slot, executor):
    first, second = slot(), slot()
    first.run()
    second.run()
    (jvm,) = jvms_in(executor)
    os.kill(jvm, signal.SIGKILL)
    for each in (first, second):
        told = wait_until(lambda each=each: each.worker.life.how_it_ended())
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


def test_a_slot_that_is_killed_as_its_harness_starts_holds_no_other_up(slot, executor):
    program = [sys.executable, java_slot.__file__, str(executor)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as first:
        try:
            (jvm,) = wait_until(lambda: jvms_in(executor))
            second = slot()
            # The harness of the first slot has begun.
            wait_until(lambda: "sparkdrain-harn\n" in threads_of(jvm), 120.0)
        finally:
            first.kill()
    second.run()
    assert jvms_in(executor) == [jvm]


def test_a_harness_that_has_lost_its_connection_for_elements_is_lost(slot, monkeypatch):
    """Else slot and harness would wait for each other for ever."""

    def lose(_services, _elements, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")

    monkeypatch.setattr(services.SdkServices, "Data", lose)
    monkeypatch.setattr(worker, "_DATA_SECONDS", 2.0)
    with pytest.raises(HarnessLost, match="has no connection for them"):
        slot().run()


def threads_of(jvm: int) -> list[str]:
    names = []
    for each in Path(f"/proc/{jvm}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            names.append(each.read_text())
    return names


def connections_to(port: str, jvm: int) -> set[str]:
    """Connections that a JVM has made to a port, by their own address."""
    _, *lines = Path(f"/proc/{jvm}/net/tcp6").read_text().splitlines()
    split = map(str.split, lines)
    return {own for _, own, other, state, *_ in split if other.endswith(port) and state == "01"}


def test_a_jvm_that_stands_still_while_it_connects_is_not_lost(slot, executor):
    """As on a machine that has too much to do."""
    one = slot()
    port = f":{int(one.worker.life.endpoint.rpartition(':')[2]):04X}"
    (jvm,) = wait_until(lambda: jvms_in(executor))
    stopped: list[str] = []
    has_run = threading.Event()

    def stop_at_each_connection() -> None:
        while not has_run.wait(0.0005):
            for own in connections_to(port, jvm) - set(stopped):
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
