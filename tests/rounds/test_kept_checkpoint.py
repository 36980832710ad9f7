"""A checkpoint that an earlier release has made: this release goes on from there."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.paths import Paths
from sparkdrain.checkpoints.publish import newest
from sparkdrain.checkpoints.restore import restore
from tests.support import kept_job
from timers_state import RoundStore
from timers_state.inspect import entries


@pytest.fixture
def kept(tmp_path):
    return shutil.copytree(kept_job.KEPT, tmp_path / "kept")


def test_a_job_goes_on_from_a_checkpoint_of_an_earlier_release_and_makes_what_it_would_have_made(
    kept,
):
    assert kept_job.resumed(kept) == kept_job.unharmed()


def test_the_checkpoint_has_all_kinds_of_state_and_of_timers(kept, tmp_path):
    storage, paths = storage_at(str(kept)), Paths(str(kept), "job")
    manifest = newest(storage, paths)
    assert manifest is not None
    kinds: Counter = Counter()
    for shard in manifest.shards:
        where = tmp_path / f"{shard.level}-{shard.slot}"
        restore(storage, paths, shard, where)
        store = RoundStore.take_up(where)
        for entry in entries(store):
            has_tag = entry.time is not None and bool(entry.part)
            kinds[f"{entry.kind} with a tag" if has_tag else entry.kind] += 1
        store.close()
    assert {kind for kind, count in kinds.items() if count} >= {
        "value",
        "combining",
        "bag",
        "set",
        "ordered list",
        "event timer",
        "event timer with a tag",
        "processing timer",
        "processing timer with a tag",
        "hold timer",
        "hold timer with a tag",
        "expiry timer",
    }, json.dumps(kinds)
