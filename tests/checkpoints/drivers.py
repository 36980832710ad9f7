"""Drivers of one job as checkpoints see them, with state that remembers where it was.

A driver's state is a folder of a few files, some of which never change, as tables do not. One of
them names all checkpoints that have covered the state, so that whoever restores it can tell what it
goes on from.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from faulty_storage import Fault, FaultyStorage

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.manifest import Manifest, ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import lost, newest, publish, take_up
from sparkdrain.checkpoints.publisher import collect
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Bringer, Destination
from sparkdrain.errors import CheckpointDamaged, CheckpointFailed, Fenced

if TYPE_CHECKING:
    from pathlib import Path

PATHS = Paths("bucket", "job")
SLOTS = 2


class World:
    """What outlives drivers: the storage, and what was told to the outside."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.files: dict[str, bytes] = {}
        self.told: list[tuple[int, int]] = []
        self.names = 0

    def fresh(self, what) -> Path:
        self.names += 1
        return self.directory / f"{what}-{self.names}"

    def check(self):
        """Whoever took over now would find all that was told, whole."""
        storage = FaultyStorage(self.files, _never)
        found = newest(storage, PATHS)
        if found is None:
            assert not self.told
            return
        assert set(self.told) <= restored(self, storage, found)[1]


def _never(what):
    return Fault.NONE


def restored(world, storage, manifest):
    """The state in a checkpoint: tables, and the checkpoints that have covered it."""
    covered = []
    tables = {}
    for shard in manifest.shards:
        directory = world.fresh("restored")
        restore(storage, PATHS, shard, directory)
        covered.append(json.loads((directory / "covered").read_text()))
        tables[shard.slot] = {
            path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".sst"
        }
    assert all(each == covered[0] for each in covered), "slots are of different rounds"
    assert tuple(covered[0][-1]) == (manifest.epoch, manifest.number)
    return tables, {tuple(stamp) for stamp in covered[0]}


class Driver:
    """Takes the job over, goes on from its newest checkpoint, and makes some more."""

    kind = FaultyStorage

    def __init__(self, world, ask, token, checkpoints, kept=2):
        self.world = world
        self.storage = self.kind(world.files, ask)
        self.token = token
        self.checkpoints = checkpoints
        self.kept = kept
        self.done = 0
        self.epoch = 0
        self.published = None

    def run(self):
        """Until all checkpoints are made, or the job is somebody else's. Raises ``Died``."""
        try:
            lease, found = self._take_over()
        except (CheckpointFailed, Fenced):
            return
        self.epoch = lease.epoch
        files = {shard.slot: shard.files for shard in found.shards} if found else {}
        bringers = [
            Bringer(Destination(self.storage, PATHS, lease.epoch, 0, slot), files.get(slot, ()))
            for slot in range(SLOTS)
        ]
        number = found.number if found else 0
        while self.done < self.checkpoints:
            number += 1
            self.done += 1
            try:
                self._checkpoint(lease, number, bringers)
            except Fenced:
                return
            except CheckpointFailed:
                self.covered.pop()
        with suppress(Fenced):
            self._collect(lease)

    def _take_over(self):
        lease = claim(self.storage, PATHS, self.token, "a test")
        found = take_up(lease)
        if found is None and lost(self.storage, PATHS):
            message = "manifests are not seen"
            raise CheckpointFailed(message)
        self.tables = {slot: {} for slot in range(SLOTS)}
        self.covered = []
        if found is not None:
            try:
                self.tables, covered = restored(self.world, self.storage, found)
            except CheckpointDamaged:
                lease.check()  # a newer driver has removed it
                raise
            assert covered >= self._known(lease), "what was told is not known any more"
            self.covered = sorted(covered)
        return lease, found

    def _known(self, lease):
        """What was told by drivers before this one."""
        return {stamp for stamp in self.world.told if stamp[0] < lease.epoch}

    def _checkpoint(self, lease, number, bringers):
        self.covered.append((lease.epoch, number))
        shards = []
        for slot, bringer in enumerate(bringers):
            tables = self.tables[slot]
            self.world.names += 1
            tables[f"{self.world.names}.sst"] = b"table %d" % self.world.names
            if len(tables) > 3:
                del tables[min(tables, key=lambda name: int(name.split(".")[0]))]
            snapshot = self.world.fresh("snapshot")
            snapshot.mkdir()
            for name, data in tables.items():
                (snapshot / name).write_bytes(data)
            (snapshot / "covered").write_text(json.dumps(self.covered))
            (snapshot / "empty").touch()
            files, _ = bringer.bring(number, snapshot, lambda: None)
            shards.append(ShardState(0, slot, files))
            if slot == 0:  # while others are on their way
                self._collect(lease)
        manifest = Manifest("job", "run", lease.epoch, number, number, 0, {}, SLOTS, tuple(shards))
        self.published = publish(lease, manifest)
        self.world.told.append((lease.epoch, number))

    def _collect(self, lease):
        if self.published is not None:
            with suppress(CheckpointFailed):  # the next one will do it
                collect(lease, self.published, self.kept)
