"""A host lives as long as its driver and its executor do, and not longer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import hosted
import psutil
import pytest

from sparkdrain.errors import BadSetup, HostMissing, SparkDrainError, WorkerLost
from sparkdrain.hosts.line import Ask, HostId, ToLeash
from sparkdrain.lines.line import Endpoint, Line
from tests.support.waiting import wait_until

DRIVER = """
import sys, time
from sparkdrain.hosts.leash import Leash
from sparkdrain.lines.server import TcpBind
endpoint = Leash(TcpBind("127.0.0.1", "127.0.0.1")).endpoint
print(endpoint.address[1], endpoint.key.hex(), flush=True)
time.sleep(600)
"""


def gone(bench) -> None:
    wait_until(lambda: not bench.processes())
    assert bench.files() == []


def test_when_the_driver_lets_go_services_are_closed_and_nothing_is_left(bench) -> None:
    for slot in range(3):
        bench.ask("count", slot=slot)
    assert bench.leash.close() == ()
    assert bench.mark("closed").exists()
    assert bench.files() == []
    assert {record.ended for record in bench.leash.hosts()} == {
        "the driver closed the job; it exited with status 0"
    }
    wait_until(lambda: not bench.processes())


def test_no_host_starts_after_the_driver_has_let_go(bench) -> None:
    bench.leash.close()
    with pytest.raises(BadSetup, match="does not reach the driver"):
        bench.ask("count")
    gone(bench)


# Whatever moment these meet: it holds at all.
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_driver_may_let_go_while_hosts_are_being_started(bench, pause) -> None:
    tasks = [bench.start("count", slot=slot) for slot in range(2)]
    time.sleep(pause)
    bench.leash.close()
    for task in tasks:
        with contextlib.suppress(SparkDrainError):
            bench.outcome(task)
    wait_until(lambda: not bench.processes())
    assert bench.files() == []


@pytest.mark.parametrize("pause", [0.1, 0.2, 0.3])
def test_a_task_may_be_killed_while_it_starts_a_host(bench, pause) -> None:
    task = bench.start("count")
    time.sleep(pause)
    bench.kill(task)
    ((_, calls),) = bench.ask("count")
    assert calls in {b"1", b"2"}


def test_a_host_asleep_in_user_code_is_woken_to_tear_down(bench) -> None:
    task = bench.start("sleep")
    bench.wait_for("asleep")
    bench.leash.close()
    assert bench.mark("closed").exists()
    with pytest.raises(WorkerLost):
        bench.outcome(task)


def test_a_host_that_does_not_tear_down_is_killed(bench) -> None:
    task = bench.start("resist")
    bench.wait_for("resisting")
    bench.leash.close(seconds=2.0)
    wait_until(lambda: "SIGKILL" in bench.leash.hosts()[0].ended)
    assert bench.files() == []
    with pytest.raises(WorkerLost):
        bench.outcome(task)


def test_what_user_code_has_started_ends_with_the_host(bench) -> None:
    ((_, child),) = bench.ask("breed")
    assert psutil.pid_exists(int(child))
    bench.leash.close()
    wait_until(lambda: not bench.processes())


needs_orphans = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a process adopt orphans"
)


@needs_orphans
def test_a_daemon_that_user_code_has_started_ends_with_the_host(bench) -> None:
    ((_, daemon),) = bench.ask("daemonize 600")
    assert psutil.Process(int(daemon)).ppid() == warden_of(bench).pid
    assert bench.leash.close() == ()
    assert not psutil.pid_exists(int(daemon))


@needs_orphans
def test_a_daemon_ends_with_a_host_that_is_killed(bench) -> None:
    ((_, daemon),) = bench.ask("daemonize 600")
    os.kill(bench.leash.hosts()[0].pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(int(daemon)))


@needs_orphans
def test_a_daemon_that_has_ended_is_no_zombie_while_the_host_lives(bench) -> None:
    ((_, daemon),) = bench.ask("daemonize 0")
    wait_until(lambda: not psutil.pid_exists(int(daemon)))
    assert bench.ask("count", fresh=False) == [(0, b"2")]


def test_hosts_tear_down_when_the_driver_dies(bench) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, env=bench.environ
    )
    port, key = driver.stdout.readline().split()
    endpoint = Endpoint(("127.0.0.1", int(port)), bytes.fromhex(key.decode()))
    bench.ask("count", leash=endpoint)
    with driver:
        driver.kill()
    bench.wait_for("closed")
    gone(bench)


@pytest.mark.parametrize("before", [None, hosted.forget_pidfd])
def test_hosts_tear_down_when_their_executor_dies(bench, before) -> None:
    executor = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    bench.ask("count", keeper=executor.pid, before=before)
    with executor:
        executor.kill()
    bench.wait_for("closed")
    gone(bench)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_host_that_is_told_to_end_tears_down(bench, number) -> None:
    bench.ask("count")
    os.kill(bench.leash.hosts()[0].pid, number)
    bench.wait_for("closed")
    gone(bench)


def test_a_host_that_is_told_to_end_in_a_finalizer_ends_and_prints_nothing(bench) -> None:
    task = bench.start("finalize")
    bench.wait_for("finalizing")
    os.kill(bench.leash.hosts()[0].pid, signal.SIGTERM)
    bench.wait_for("closed")
    bench.outcome(task)
    gone(bench)
    assert "Stopped" not in (bench.directory / "stderr").read_text()


def warden_of(bench) -> psutil.Process:
    return psutil.Process(bench.leash.hosts()[0].pid).parent()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_host_without_its_warden_tears_down(bench, number) -> None:
    task = bench.start("sleep")
    bench.wait_for("asleep")
    warden_of(bench).send_signal(number)
    bench.wait_for("closed")
    with pytest.raises(WorkerLost):
        bench.outcome(task)
    gone(bench)


def test_an_interrupt_from_the_terminal_does_not_reach_a_host(bench) -> None:
    bench.ask("count")
    (record,) = bench.leash.hosts()
    assert os.getsid(record.pid) != os.getsid(0)
    for process in (psutil.Process(record.pid), warden_of(bench)):
        process.send_signal(signal.SIGINT)
    assert bench.ask("count", fresh=False) == [(0, b"2")]


def test_a_stranger_at_the_leash_keeps_nobody_waiting(bench) -> None:
    with socket.create_connection(bench.leash.endpoint.address):
        assert bench.ask("count") == [(0, b"1")]
        began = time.monotonic()
        assert bench.leash.close() == ()
        assert time.monotonic() - began < 20


def test_who_does_not_know_the_key_hears_nothing_of_the_leash(bench) -> None:
    bench.ask("count", slot=5)
    (record,) = bench.leash.hosts()
    with socket.create_connection(bench.leash.endpoint.address) as stranger:
        line = Line(stranger)
        line.recv_bytes()  # the challenge
        line.send_bytes(b"no digest")
        with line, pytest.raises((EOFError, OSError)):
            line.recv_bytes()  # that it was refused
            line.send(ToLeash(ask=Ask(record.id)))
            line.recv_bytes()


def test_the_driver_knows_its_hosts(bench) -> None:
    ((_, pid),) = bench.ask("pid", slot=5)
    (record,) = bench.leash.hosts()
    assert (record.id.slot, record.pid, record.ended) == (5, int(pid), "")


def test_the_driver_hears_of_a_host_that_is_lost(bench) -> None:
    told = threading.Event()
    bench.leash.on_loss(told.set)
    ((_, pid),) = bench.ask("pid", slot=5)
    bench.ask("pid", slot=4)
    bench.leash.release({HostId("job", 4)})
    assert not told.is_set(), "it was told to end"
    os.kill(int(pid), signal.SIGKILL)
    assert told.wait(30)
    (lost,) = bench.leash.lost()
    assert (lost.id.slot, "SIGKILL" in lost.ended) == (5, True)
    bench.ask("pid", slot=5)
    assert bench.leash.lost() == (), "another one has its place"


def test_a_host_that_is_released_ends_alone_and_another_takes_its_place(bench) -> None:
    for slot in (4, 5):
        assert bench.ask("count", slot=slot) == [(0, b"1")]
    before = {record.id.slot: record for record in bench.leash.hosts()}
    assert bench.leash.release({before[5].id}) == ()
    assert {record.id.slot: bool(record.ended) for record in bench.leash.hosts()} == {
        4: False,
        5: True,
    }
    with pytest.raises(HostMissing):
        bench.ask("count", slot=5, fresh=False)
    assert bench.ask("count", slot=5) == [(0, b"1")]
    assert bench.ask("count", slot=4, fresh=False) == [(0, b"2")]
