"""A job on a disk that is full from any write on stops, names the disk, and goes on exactly.

Checkpoints, the directories in which RocksDB works, and the metadata store are on that disk: it is
full at each write of a commit, a checkpoint, a drain and a record in turn. Then there is room.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

import pytest
from test_power_loss import Job, pytestmark  # noqa: F401 (skips where there is no such disk)

from tests.support.lossy_disk import LossyDisk

# A life makes about so many changes of the disk.
CHANGES = 1400
_FULL = os.strerror(28)
# The tests' rounds make a folder, and nothing of the product stands between them and the error.
_OWN_FOLDER = re.compile(
    r'in_memory_rounds\.py", line [^\n]+\n[^\n]+(mkdtemp|mkdir)\((?:(?!sparkdrain/).)+OSError',
    re.DOTALL,
)


def stopped_at(place, changes) -> Counter:
    """How jobs have ended that had no room from these changes on."""
    ends: Counter = Counter()
    for change in changes:
        disk = LossyDisk(place / str(change))
        try:
            rng = Random(change)
            job = Job(disk, rng, drains=change % 2 == 0, kind=rng.choice(["file", "rocksdb"]))
            (disk.path / "scratch").mkdir()  # the test's own
            disk.fill_at(change)
            made = job.live(None)
            disk.fill_at(None)
            ends[job.failure[0][0] if job.failure else "none"] += 1
            if made is None:
                kinds, said, trace = job.failure
                # Folders of the rounds are the test's own, where Spark's would be.
                is_own = _OWN_FOLDER.search(trace)
                assert is_own or {"SparkDrainError", "StateError"} & {*kinds}, trace
                assert _FULL in said, trace
                assert str(disk.path) in said, trace
                made = job.live(None)
            job.check(made)
        finally:
            disk.close()
    return ends


def stopped(place, changes, processes=1) -> Counter:
    parts = [changes[first::processes] for first in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as apart:
        return sum(apart.map(stopped_at, [place] * processes, parts), Counter())


def test_a_job_whose_disk_is_full_stops_and_goes_on_exactly(tmp_path):
    ends = stopped(tmp_path, [700])
    assert not ends["none"], ends


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_job_whose_disk_is_full_at_any_write_stops_and_goes_on_exactly(tmp_path):
    ends = stopped(tmp_path, range(CHANGES), os.cpu_count())
    print(dict(ends))
    assert ends["CheckpointFailed"]
