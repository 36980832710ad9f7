"""A store that is uploaded, published, found and restored is the store that it was."""

from __future__ import annotations

import pytest
from snapshots import change, manifest, rows, rows_in, wait_for

from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.publish import newest, publish
from sparkdrain.checkpoints.publisher import collect
from sparkdrain.checkpoints.restore import restore
from sparkdrain.checkpoints.upload import Destination, Uploader
from timers_state import open_store


@pytest.fixture
def live(tmp_path):
    store = open_store(tmp_path / "live")
    yield store
    store.abandon()


def test_what_was_published_last_is_restored(storage, paths, live, tmp_path):
    lease = claim(storage, paths, "driver", "a test")
    uploader = Uploader(Destination(storage, paths, lease.epoch, 0, 0))
    for number in range(1, 5):
        change(live, range(number * 10, number * 10 + 50))
        live.snapshot(tmp_path / f"snapshot-{number}")
        uploader.begin(number, tmp_path / f"snapshot-{number}")
        uploaded = wait_for(uploader)
        assert not uploaded.error
        published = manifest(paths, lease.epoch, number, uploaded.files)
        collect(lease, publish(lease, published), 2)
        expected = rows(live)
    change(live, range(1000))
    found = newest(storage, paths)
    assert found == published
    restore(storage, paths, found.shards[0], tmp_path / "restored")
    assert rows_in(tmp_path / "restored") == expected
    assert len(storage.list(paths.manifests)) == 2
    uploader.close()
    assert not list(tmp_path.glob("snapshot-*"))


def test_a_slot_that_was_restored_uploads_only_what_is_new(storage, paths, live, tmp_path):
    change(live, range(5000))
    live.snapshot(tmp_path / "one")
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, tmp_path / "one")
    first = wait_for(uploader)
    shard = manifest(paths, 1, 1, first.files).shards[0]
    restore(storage, paths, shard, tmp_path / "restored")
    again = open_store(tmp_path / "restored")
    change(again, [1])
    again.snapshot(tmp_path / "two")
    again.abandon()
    uploader = Uploader(Destination(storage, paths, 2, 0, 0), shard.files)
    uploader.begin(2, tmp_path / "two")
    second = wait_for(uploader)
    assert first.uploaded_bytes > 500_000
    assert second.uploaded_bytes < 20_000
    assert {file.path for file in second.files} & {file.path for file in first.files}
