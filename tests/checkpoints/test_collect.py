"""Old checkpoints are removed by who has the job, and what is left of them is whole."""

from __future__ import annotations

import pytest
from faulty_storage import Died, Fault, FaultyStorage
from snapshots import manifest

from sparkdrain.checkpoints.catalogue import find, verify
from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.manifest import FileEntry
from sparkdrain.checkpoints.paths import Place, Stamp
from sparkdrain.checkpoints.publish import publish
from sparkdrain.checkpoints.publisher import collect
from sparkdrain.errors import CheckpointFailed, Fenced


def publish_some(storage, paths, count=4):
    """Checkpoints, each with a file of its own and one that it shares with the one before."""
    lease = claim(storage, paths, "a", "")
    for number in range(1, count + 1):
        names = [f"{Stamp(1, n)}-000-0000-x" for n in (number - 1, number)]
        for name in names:
            storage.write(paths.file(name), [b"1"])
        files = tuple(FileEntry(f"{n}.sst", 1, "digest", name) for n, name in enumerate(names))
        publish(lease, manifest(paths, 1, number, files))
    return lease


def numbers(storage, paths):
    return sorted(found.place.stamp.number for found in find(storage, paths.folder))


def test_who_lost_the_job_removes_nothing(paths):
    storage = FaultyStorage({}, lambda what: Fault.NONE)
    lease = publish_some(storage, paths)
    claim(storage, paths, "b", "")
    before = dict(storage.files)
    with pytest.raises(Fenced):
        collect(lease, Place(4, Stamp(1, 4)), 2)
    assert storage.files == before


def test_nothing_is_removed_while_a_kept_checkpoint_is_damaged(paths):
    storage = FaultyStorage({}, lambda what: Fault.NONE)
    lease = publish_some(storage, paths)
    storage.write(paths.manifest(Place(3, Stamp(1, 3))), [b"garbage"])
    before = dict(storage.files)
    with pytest.raises(CheckpointFailed, match="nothing is removed"):
        collect(lease, Place(4, Stamp(1, 4)), 2)
    assert storage.files == before
    collect(lease, Place(4, Stamp(1, 4)), 1)
    assert numbers(storage, paths) == [4]


def test_wherever_removing_is_interrupted_each_checkpoint_that_is_there_is_whole(paths):
    steps = 0
    while True:
        left = steps

        def ask(what):
            nonlocal left
            left -= what.startswith("delete")
            return Fault.DIES_BEFORE if left < 0 else Fault.NONE

        storage = FaultyStorage({}, lambda what: Fault.NONE)
        lease = publish_some(FaultyStorage(storage.files, ask), paths)
        try:
            collect(lease, Place(4, Stamp(1, 4)), 2)
            break
        except Died:
            steps += 1
        assert all(not found.wrong for found in find(storage, paths.folder))
        assert numbers(storage, paths)[-2:] == [3, 4]
    assert steps > 3
    assert numbers(storage, paths) == [3, 4]


def test_a_file_that_has_changed_since_is_told_of(paths):
    storage = FaultyStorage({}, lambda what: Fault.NONE)
    publish_some(storage, paths, 1)
    (found,) = find(storage, paths.folder)
    wrong = verify(storage, found, lambda size: None)
    assert ["are not those that were written" in line for line in wrong] == [True, True]
