"""Orphans are adopted, ended and collected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import sparkdrain
from sparkdrain.hosts import orphans
from sparkdrain.hosts.orphans import JOB_VARIABLE, calls_exec, end_orphans_of_job, is_of_job
from tests.support.waiting import wait_until

SOURCES = Path(sparkdrain.__file__).parent.parent

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a process adopt orphans"
)
as_init = pytest.mark.skipif(
    shutil.which("unshare") is None or os.geteuid() != 0,
    reason="a first process of a container is made with unshare, by root",
)

ORPHANS = """
import os, subprocess, time
from sparkdrain.hosts.orphans import adopt_orphans, children, end_orphans, reap_as_init

def orphan(command):
    "Starts a process in a session of its own, whose parent ends at once; the process."
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if started := os.fork():
            os.write(writing, str(started).encode())
            os._exit(0)
        os.execvp("sh", ["sh", "-c", command])
    os.waitpid(child, 0)
    return int(os.read(reading, 20))
"""
WARDEN = """
import socket, sys
from sparkdrain.hosts.memory_limit import MemoryLimit
from sparkdrain.hosts.warden import Warden
assert adopt_orphans()
shared = orphan("cp $(command -v sleep) $0/sparkdrain-sdks; exec $0/sparkdrain-sdks 600")
killed = orphan("exec sleep 600")
while "sparkdrain-sdks" not in {child.name for child in children()}:
    time.sleep(0.05)
host = os.fork()
if host == 0:
    os._exit(0)
line, _ = socket.socketpair()
Warden(line, 0, None, MemoryLimit(0, 0)).wait(host)
print([child.pid == shared for child in children()])
end_orphans()
"""
ENDER = """
assert adopt_orphans()
print(orphan("setsid sleep 600 & sleep 600"), flush=True)
time.sleep(0.5)
end_orphans()
print(children())
"""
SPARER = """
assert adopt_orphans()
spared = orphan("cp $(command -v sleep) $0/spared; exec $0/spared 600")
killed = orphan("exec sleep 600")
while "spared" not in {child.name for child in children()}:
    time.sleep(0.05)
end_orphans(spared=("spared",))
print([child.pid == spared for child in children()])
end_orphans()
"""
NAMED = """
from sparkdrain.hosts.orphans import WARDEN, be_called
reading, writing = os.pipe()
if os.fork() == 0:
    be_called(WARDEN)
    os.write(writing, b"1")
    time.sleep(600)
os.read(reading, 1)
print([child.name == WARDEN for child in children()])
end_orphans()
"""
INIT = """
reap_as_init()
own = [
    subprocess.Popen(["sh", "-c", "exit 7"]),
    subprocess.Popen(["sh", "-c", "exit 8"], start_new_session=True),
]
orphans = {orphan("sleep 0.1") for _ in range(5)}
deadline = time.monotonic() + 30
while orphans & {child.pid for child in children()} and time.monotonic() < deadline:
    time.sleep(0.1)
print(os.getpid(), [child.pid for child in children() if child.pid in orphans])
print([process.wait() for process in own])
"""


def run(program: str, *before: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-c", ORPHANS + program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )


def test_what_orphans_have_started_is_killed_too():
    with run(ENDER) as process:
        adopted = int(process.stdout.readline())
        assert process.stdout.read() == "[]\n"
    wait_until(lambda: not psutil.pid_exists(adopted))


def test_wardens_are_left_alone(tmp_path):
    with run(SPARER.replace("$0", str(tmp_path))) as process:
        assert process.stdout.read() == "[True]\n"
    with run(NAMED) as process:
        assert process.stdout.read() == "[True]\n"


def test_a_warden_leaves_the_jvm_that_other_slots_share(tmp_path):
    with run(WARDEN.replace("$0", str(tmp_path))) as process:
        assert process.stdout.read() == "[True]\n"


@as_init
def test_the_first_process_of_a_container_collects_orphans_and_no_child_of_its_own():
    with run(INIT, "unshare", "--pid", "--fork", "--mount-proc") as process:
        told = process.stdout.read()
    assert told == "1 []\n[7, 8]\n"


@pytest.fixture
def begin():
    """Begins a program with what it has for an environment; it ends with the test."""
    begun = []

    def run_it(*command, **environ):
        begun.append(subprocess.Popen(command, env=environ))
        return begun[-1].pid

    yield run_it
    for process in begun:
        process.kill()
        process.wait()


def test_a_process_that_calls_exec_is_not_taken_for_another_jobs(begin, tmp_path):
    again = tmp_path / "again"
    again.write_text(f"exec {shutil.which('sh')} {again}")
    calling = begin(shutil.which("sh"), str(again), **{JOB_VARIABLE: "a"})
    wait_until(lambda: is_of_job(calling, "a"))
    seen = set()

    def look():
        seen.update(is_of_job(calling, "a") for _ in range(20_000))
        return None in seen

    wait_until(look)
    assert seen == {True, None}


def test_a_process_without_an_environment_is_of_no_job(begin):
    sleep, true = shutil.which("sleep"), shutil.which("true")
    without = begin(sleep, "600")
    wait_until(lambda: psutil.Process(without).exe() == os.path.realpath(sleep))
    assert is_of_job(without, "a") is False
    zombie = begin(true, **{JOB_VARIABLE: "a"})
    wait_until(lambda: psutil.Process(zombie).status() == psutil.STATUS_ZOMBIE)
    assert is_of_job(zombie, "a") is False


@pytest.mark.parametrize(
    ("state", "code", "environment", "calls"),
    [
        ("R", 0, (0, 0), True),
        ("R", 0, (7, 7), True),  # its place is known before it is
        ("R", 5, (7, 9), True),  # done since it was seen to be empty
        ("S", 5, (7, 7), False),
        ("Z", 0, (0, 0), False),
    ],
)
def test_what_the_system_tells_of_a_process_that_calls_exec(state, code, environment, calls):
    begins, ends = environment
    behind = [state, *[0] * 22, code, *[0] * 23, begins, ends, 0]
    assert calls_exec(f"1 (a) b) {' '.join(map(str, behind))}") is calls


def test_a_process_that_calls_exec_is_asked_again_whose_it_is(begin, monkeypatch):
    answers = iter([None, None, True])
    monkeypatch.setattr(orphans, "children_of", lambda parent: [asked])
    monkeypatch.setattr(orphans, "is_of_job", lambda child, job: next(answers, False))
    asked = begin(shutil.which("sleep"), "600")
    end_orphans_of_job(os.getpid(), "a", seconds=0.5)
    assert psutil.Process(asked).status() == psutil.STATUS_ZOMBIE
