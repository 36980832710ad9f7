"""Publishing in the background tells how it ended, and keeps the storage flat."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import pytest
from faulty_storage import Fault, FaultyStorage
from snapshots import change, manifest, wait_for

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.manifest import FileEntry
from sparkdrain.checkpoints.publish import newest
from sparkdrain.checkpoints.publisher import Publisher
from sparkdrain.checkpoints.upload import Destination, Uploader
from sparkdrain.errors import CheckpointFailed, Fenced
from timers_state import open_store


def ended(publisher):
    end = time.monotonic() + 60
    while (told := publisher.poll()) is None:
        assert time.monotonic() < end
        threading.Event().wait(0.002)
    return told


def test_a_checkpoint_is_published_and_told(storage, paths):
    lease = claim(storage, paths, "a", "")
    publisher = Publisher(lease, 2)
    assert publisher.poll() is None
    for number in (1, 2, 3):
        publisher.begin(manifest(paths, 1, number, ()))
        assert (ended(publisher).number, ended(publisher).error) == (number, None)
        assert newest(storage, paths).number == number
    publisher.wait(60)
    assert len(storage.list(paths.manifests)) == 2


def test_one_at_a_time(paths):
    go_on = threading.Event()

    def wait(what):
        if what.startswith("publish"):
            assert go_on.wait(60)
        return Fault.NONE

    lease = claim(FaultyStorage({}, wait), paths, "a", "")
    publisher = Publisher(lease, 2)
    publisher.begin(manifest(paths, 1, 1, ()))
    with pytest.raises(ValueError, match="checkpoint 1 is still"):
        publisher.begin(manifest(paths, 1, 2, ()))
    assert publisher.poll() is None
    go_on.set()
    assert ended(publisher).error is None


class Gate:
    """Holds calls of a storage that begin so, until it is opened."""

    def __init__(self, what):
        self._what = what
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, what):
        if what.startswith(self._what):
            self.entered.set()
            assert self.opened.wait(60)
        return Fault.NONE


def test_nothing_is_told_before_the_manifest_is_there(paths):
    gate = Gate("publish")
    storage = FaultyStorage({}, gate)
    publisher = Publisher(claim(storage, paths, "a", ""), 2)
    for number in (1, 2):
        gate.entered.clear()
        gate.opened.clear()
        publisher.begin(manifest(paths, 1, number, ()))
        assert gate.entered.wait(60)
        assert publisher.poll() is None
        assert len(storage.list(paths.manifests)) == number - 1
        gate.opened.set()
        assert ended(publisher).number == number
        assert len(storage.list(paths.manifests)) == number


def test_a_checkpoint_is_published_when_old_ones_are_removed(paths):
    gate = Gate("delete")
    storage = FaultyStorage({}, gate)
    publisher = Publisher(claim(storage, paths, "a", ""), 1)
    for number in (1, 2):
        publisher.begin(manifest(paths, 1, number, ()))
        assert ended(publisher).error is None
    assert gate.entered.wait(60)
    publisher.begin(manifest(paths, 1, 3, ()))
    threading.Event().wait(0.2)  # as long as it takes, if nothing keeps it
    assert publisher.poll() is None
    gate.opened.set()
    assert (ended(publisher).number, ended(publisher).error) == (3, None)


def test_what_goes_wrong_is_told(storage, paths):
    lease = claim(storage, paths, "a", "")
    publisher = Publisher(lease, 2)
    lost = manifest(paths, 1, 1, ())
    shard = lost.shards[0]
    file = FileEntry("name", 1, "digest", "000001-000000001-0-0-digest")
    publisher.begin(replace(lost, shards=(replace(shard, files=(file,)),)))
    error = ended(publisher).error
    assert isinstance(error, CheckpointFailed)
    assert "000001-000000001-0-0-digest is missing" in str(error)
    claim(storage, paths, "b", "")
    publisher.begin(manifest(paths, 1, 2, ()))
    assert isinstance(ended(publisher).error, Fenced)


def test_what_cannot_be_removed_is_no_failure(paths):
    fault = [Fault.NONE]
    files = {}

    def ask(what):
        return fault[0] if what.startswith("delete") else Fault.NONE

    storage = FaultyStorage(files, ask)
    publisher = Publisher(claim(storage, paths, "a", ""), 1)
    for number in (1, 2):
        fault[0] = Fault.REFUSED
        publisher.begin(manifest(paths, 1, number, ()))
        assert ended(publisher).error is None
    publisher.wait(60)
    assert len(storage.list(paths.manifests)) == 2
    fault[0] = Fault.NONE
    publisher.begin(manifest(paths, 1, 3, ()))
    assert ended(publisher).error is None
    publisher.wait(60)
    assert len(storage.list(paths.manifests)) == 1


def test_a_kept_checkpoint_that_is_damaged_stops_removing_until_it_is_old(storage, paths):
    publisher = Publisher(claim(storage, paths, "a", ""), 2)
    for number in range(1, 6):
        if number == 3:
            publisher = Publisher(claim(storage, paths, "b", ""), 2)
            storage.write(f"{paths.manifests}/000000002/000001-000000002.manifest", [b"garbage"])
        epoch = 1 if number < 3 else 2
        publisher.begin(manifest(paths, epoch, number, ()))
        assert ended(publisher).error is None
        publisher.wait(60)
        left = sorted(storage.list(paths.manifests))
        if number == 3:
            assert left[:2] == [name(1, 1), name(1, 2)]
    assert left == [name(2, 4), name(2, 5)]


def name(epoch, number):
    """Of the manifest of a checkpoint that was published when all before it were."""
    return f"{number:09d}/{epoch:06d}-{number:09d}.manifest"


def test_many_checkpoints_take_no_more_room_than_a_few(storage, paths, tmp_path):
    store = open_store(tmp_path / "live")
    lease = claim(storage, paths, "a", "")
    publisher, uploader = (
        Publisher(lease, 3),
        Uploader(Destination(storage, paths, lease.epoch, 0, 0)),
    )
    sizes = {}
    for number in range(1, 91):
        change(store, range(number % 10, 1000, 10))
        store.snapshot(tmp_path / f"snapshot-{number}")
        uploader.begin(number, tmp_path / f"snapshot-{number}")
        publisher.begin(manifest(paths, lease.epoch, number, wait_for(uploader).files))
        assert ended(publisher).error is None
        publisher.wait(60)
        sizes[number] = measures(storage, paths, tmp_path)
    store.abandon()
    for early, late in zip(
        measured(sizes, range(15, 45)), measured(sizes, range(60, 91)), strict=True
    ):
        assert late <= 1.5 * early


def measures(storage, paths, directory):
    files = storage.list(paths.folder)
    return (
        len(files),
        sum(files.values()),
        sum(1 for _ in directory.rglob("*")),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
    )


def measured(sizes, numbers):
    return [max(column) for column in zip(*(sizes[number] for number in numbers), strict=True)]
