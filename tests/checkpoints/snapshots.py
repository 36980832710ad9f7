"""Stores of slots, and uploads that are waited for."""

from __future__ import annotations

import os
import threading
import time

from sparkdrain.checkpoints.manifest import Manifest, ShardState
from timers_state import open_store
from timers_state.store.store import Batch


def wait_for(uploader, seconds=60):
    """The end of the upload that was begun last."""
    end = time.monotonic() + seconds
    while (ended := uploader.poll()) is None:
        assert time.monotonic() < end, "the upload does not end"
        threading.Event().wait(0.002)
    return ended


def manifest(paths, epoch, number, files, **more):
    shard = ShardState(0, 0, files, b"report")
    return Manifest(paths.job_name, "run", epoch, number, 7, 0, {}, 1, (shard,), **more)


def change(store, keys, size=100):
    """Give keys new content that does not compress."""
    batch = Batch(store.sequence + 1)
    for key in keys:
        batch.put(b"\x01%012d" % key, os.urandom(size))
    store.write(batch)


def rows(store):
    return list(store.iterate(b"", b"\xff"))


def rows_in(directory):
    store = open_store(directory)
    try:
        return rows(store)
    finally:
        store.abandon()
