"""CPU time of processes that have ended: counted once, whoever waits for them, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.process_tree import VARIABLE, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

WORK = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\nopen(0).read()\n"
PARENT = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {WORK!r}],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.read(1)
print("worked", flush=True)
for line in sys.stdin:
    if line == "end\\n":
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    else:
        child.wait()
    print("done", flush=True)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, VARIABLE: f"of-{os.getpid()}"}
    command = [sys.executable, "-S", "-c", PARENT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def say(parent: subprocess.Popen[str], word: str) -> None:
    assert parent.stdin is not None
    parent.stdin.write(f"{word}\n")
    parent.stdin.flush()
    hear(parent)


def hear(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None
    assert parent.stdout.readline()


@pytest.mark.parametrize("waits", [True, False])
def test_a_child_that_has_ended_counts_once(parent: subprocess.Popen[str], waits: bool) -> None:
    tree = Tree(f"of-{os.getpid()}")
    hear(parent)
    tree.look()
    worked = tree.cpu
    assert worked >= 0.4
    say(parent, "end")
    tree.look()
    if waits:
        say(parent, "wait")
    else:  # the system waits for it
        parent.kill()
        parent.wait()
    for _ in range(2):
        tree.look()
    assert worked - 0.05 <= tree.cpu < worked + 0.3
