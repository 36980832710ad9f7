"""A host that uses more memory than it may is ended, and an error says so."""

from __future__ import annotations

import mmap
import os
import sys
import time

import pytest

from sparkdrain.errors import WorkerLost
from sparkdrain.hosts.memory_limit import MemoryLimit, memory_here, memory_of
from tests.support.waiting import wait_until

MIB = 1 << 20


@pytest.mark.timeout(60)  # without a limit the host would run for ten minutes
def test_the_error_names_slot_limit_use_and_remedy(bench) -> None:
    used = r"slot 3 used \d{3} MiB, and --slot_memory_limit_mb allows 400 MiB"
    with pytest.raises(WorkerLost, match=rf"it exceeded its memory limit: {used}") as lost:
        bench.ask("grow 500", slot=3, memory_mib=400)
    assert "Raise --slot_memory_limit_mb" in str(lost.value)
    assert "SIGKILL" not in str(lost.value)
    wait_until(lambda: not bench.processes())
    assert bench.files() == []


def test_without_a_limit_a_host_may_grow(bench) -> None:
    task = bench.start("grow 500")
    bench.wait_for("growing")
    time.sleep(2.5)
    assert task.poll() is None
    assert bench.leash.hosts()[0].ended == ""
    bench.leash.close()
    with pytest.raises(WorkerLost):
        bench.outcome(task)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells files apart")
def test_pages_of_files_do_not_count(bench, tmp_path_factory) -> None:
    disk = tmp_path_factory.mktemp("disk")  # files of a file system in memory do count
    assert bench.ask("map_file 500", memory_mib=400, directory=disk) == [(0, b"mapped")]


def test_memory_is_that_of_the_process_and_a_process_that_has_ended_has_none() -> None:
    before = memory_of(os.getpid())
    with mmap.mmap(-1, 100 * MIB) as held:
        for at in range(0, 100 * MIB, mmap.PAGESIZE):
            held[at] = 1
        assert before + 50 * MIB < memory_of(os.getpid()) < before + 300 * MIB
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert MemoryLimit(0).exceeded_by(os.getpid()) == ""
    assert memory_of(child) == 0
    assert MemoryLimit(0, 1).exceeded_by(child) == ""


def test_a_container_has_what_its_limit_says_and_no_more_than_the_machine(tmp_path) -> None:
    limit, machine = tmp_path / "limit", memory_here([])
    assert machine >= MIB
    assert memory_here([limit]) == machine
    for text, expected in ("max\n", machine), (f"{MIB}\n", MIB), (f"{2**63 - 4096}\n", machine):
        limit.write_text(text)
        assert memory_here([tmp_path / "gone", limit]) == expected
