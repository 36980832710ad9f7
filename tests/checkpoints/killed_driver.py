"""A driver with one slot that makes checkpoints until it is killed: ``python ... ROOT SCRATCH``.

Its state is a row per checkpoint and some noise, so whoever restores it can tell whether it is what
it is said to be. Prints every checkpoint after it was published.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from snapshots import wait_for

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import Manifest, ShardState
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest, publish
from sparkdrain.checkpoints.publisher import collect
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Destination, Uploader
from timers_state import RoundStore
from timers_state.store.store import Batch

_NUMBERS = b"\x01"
_NOISE = b"\x02"


def numbers_in(store):
    """The checkpoints that have covered a store."""
    return [int.from_bytes(row[1:], "big") for row in store.iterate_rows(_NUMBERS, _NOISE)]


def take_up(root, scratch):
    """The newest checkpoint, and a store with its state: the last one's number, and the store."""
    storage, paths = LocalStorage(), Paths(root, "job")
    found = newest(storage, paths)
    if found is None:
        return 0, (), RoundStore(scratch / "live")
    restore(storage, paths, found.shards[0], scratch / "live")
    return found.number, found.shards[0].files, RoundStore.take_up(scratch / "live")


def main(root, scratch):
    storage, paths = LocalStorage(), Paths(root, "job")
    lease = claim(storage, paths, os.urandom(8).hex(), "a test")
    number, files, store = take_up(root, scratch)
    uploader = Uploader(Destination(storage, paths, lease.epoch, 0, 0), files)
    print("begun", flush=True)
    while True:
        number += 1
        batch = Batch(store.sequence + 1)
        batch.put(_NUMBERS + number.to_bytes(8, "big"), b"")
        for _ in range(100):
            batch.put(_NOISE + os.urandom(2), os.urandom(1000))
        store.write(batch)
        store.snapshot(scratch / f"snapshot-{number}")
        uploader.begin(number, scratch / f"snapshot-{number}")
        uploaded = wait_for(uploader)
        assert not uploaded.error, uploaded.error
        shard = ShardState(0, 0, uploaded.files)
        manifest = Manifest("job", "run", lease.epoch, number, number, 0, {}, 1, (shard,))
        published = publish(lease, manifest)
        print(number, flush=True)
        collect(lease, published, 2)


if __name__ == "__main__":
    place = Path(sys.argv[2])
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    main(sys.argv[1], place)
