"""A job that is to go on from a folder in which something is wrong says what; on a real Spark."""

from __future__ import annotations

import os
import random
import shutil
import time

import pytest

from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import FORMAT
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.errors import (
    CheckpointDamaged,
    CheckpointFailed,
    CheckpointTooNew,
)
from tests.support.counting_job import checkpoints, count, wait_for

pytestmark = pytest.mark.spark

# More than will ever come.
IMPULSES = 10**6


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A job that was stopped in the midst: its folder, and when it began."""
    folder = tmp_path_factory.mktemp("stopped")
    began = time.time()
    result = count(folder, IMPULSES, began)
    wait_for(lambda: len(checkpoints(folder)) > 1)
    result.cancel()
    return folder, began


@pytest.fixture
def copied(stopped, tmp_path):
    shutil.copytree(stopped[0], tmp_path / "copy")
    return tmp_path / "copy"


def newest_manifest(folder):
    return max(folder.glob("checkpoints/counting/manifests/*/*"))


def state_file(folder):
    """The largest one that the newest checkpoint needs."""
    root = str(folder / "checkpoints")
    paths = Paths(root, "counting")
    found = newest(LocalStorage(), paths)
    entries = [file for shard in found.shards for file in shard.files]
    return folder / paths.file(max(entries, key=lambda file: file.size).path)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def garble(path):
    path.write_bytes(random.Random(1).randbytes(1000))


def make_newer(path):
    first, _, rest = path.read_bytes().partition(b"\n")
    newer = first.replace(b"%d" % FORMAT, b"%d" % (FORMAT + 1))
    assert newer != first
    path.write_bytes(newer + b"\n" + rest)


# Without a manifest, there is no checkpoint: the one before is the newest.
@pytest.mark.parametrize(
    ("which", "harm"),
    [
        (newest_manifest, truncate),
        (newest_manifest, flip),
        (newest_manifest, garble),
        (state_file, truncate),
        (state_file, flip),
        (state_file, garble),
        (state_file, os.unlink),
    ],
)
def test_a_damaged_file_is_named_and_nothing_is_run(stopped, copied, which, harm):
    path = which(copied)
    harm(path)
    with pytest.raises(CheckpointDamaged, match=path.name):
        count(copied, IMPULSES, stopped[1], "--resume").wait_until_finish()


def test_a_manifest_of_a_newer_release_is_refused(stopped, copied):
    path = newest_manifest(copied)
    make_newer(path)
    with pytest.raises(CheckpointTooNew, match=path.name):
        count(copied, IMPULSES, stopped[1], "--resume").wait_until_finish()


def test_what_does_not_belong_to_a_job_is_left_alone(stopped, copied):
    strange = [
        copied / "checkpoints" / "counting" / "manifests" / "notes.txt",
        copied / "checkpoints" / "counting" / "files" / "notes.txt",
        copied / "checkpoints" / "notes.txt",
    ]
    for path in strange:
        garble(path)
    before = max(checkpoints(copied))
    result = count(copied, IMPULSES, stopped[1], "--resume")
    wait_for(lambda: len([name for name in checkpoints(copied) if name > before]) > 1)
    result.cancel()
    assert all(path.exists() for path in strange)


def test_a_folder_that_vanishes_while_the_job_runs_stops_it(tmp_path):
    result = count(tmp_path, IMPULSES, time.time())
    wait_for(lambda: checkpoints(tmp_path))
    # At once: the job still writes there.
    (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointFailed, match=str(tmp_path / "checkpoints")):
        result.wait_until_finish()


@pytest.mark.slow
def test_a_job_goes_on_from_a_backup_of_its_folder_and_begins_anew_where_that_was_removed(tmp_path):
    """The record of its run is beside its folder, and stays: three lives are in it."""
    began, folder = time.time(), tmp_path / "checkpoints" / "counting"

    def live(*more):
        before = max(checkpoints(tmp_path), default="")
        result = count(tmp_path, IMPULSES, began, *more)
        wait_for(lambda: max(checkpoints(tmp_path), default="") > before)
        result.cancel()
        return max(checkpoints(tmp_path))[:6]

    live()
    shutil.copytree(folder, tmp_path / "backup")
    assert [live("--resume") for _ in range(2)] == ["000002", "000003"]
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert live("--resume") == "000004"
    shutil.rmtree(folder)
    assert live() == "000005"
