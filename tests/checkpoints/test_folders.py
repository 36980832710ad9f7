"""A job's folder: inside of the checkpoint directory, whatever the job and its files are called."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots import change, wait_for

from sparkdrain.checkpoints.catalogue import find
from sparkdrain.checkpoints.lease import claim
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.manifest import Manifest, ShardState
from sparkdrain.checkpoints.paths import Paths, folder_name
from sparkdrain.checkpoints.publish import newest, publish
from sparkdrain.checkpoints.restore import checked_chunks, restore
from sparkdrain.checkpoints.upload import Destination, Uploader
from sparkdrain.errors import CheckpointDamaged
from timers_state import open_store

NAMES = ["..", ".", "...", "../../x", "a/b", "@runs", "-rf", "\n", "\0", "n" * 300, "字" * 80]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_every_job_can_be_kept_in_a_folder_of_its_own_and_be_found_again(tmp_path, name):
    storage, paths = LocalStorage(), Paths(str(tmp_path / "checkpoints"), name)
    lease = claim(storage, paths, "token", "")
    publish(lease, Manifest(name, "run", lease.epoch, 1, 0, 0))
    assert os.listdir(tmp_path) == ["checkpoints"]
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert sorted(os.listdir(folder)) == ["claims", "manifests"]
    assert newest(storage, paths).job_name == name
    for asked in (name, ""):
        (found,) = find(storage, paths.root, asked)
        assert found.manifest.job_name == name
    (found,) = find(storage, str(folder))
    assert found.manifest.job_name == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_folders_have_short_names_that_lead_to_the_same_folder_when_they_are_read(name):
    folder = folder_name(name)
    assert "/" not in folder
    assert folder not in {"", ".", ".."}
    assert len(folder.encode()) <= 255
    assert folder_name(unquote(folder)) == folder
    assert folder_name(name + "x") != folder


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_checkpoints_of_jobs_with_ordinary_names_are_where_they_always_were(name):
    if name not in {".", ".."}:
        assert folder_name(name) == quote(name, safe="")


@pytest.fixture
def shard(storage, paths, tmp_path):
    """The state of a slot, in storage."""
    store = open_store(tmp_path / "live")
    change(store, range(20))
    store.snapshot(tmp_path / "snapshot")
    store.abandon()
    uploader = Uploader(Destination(storage, paths, 1, 0, 0))
    uploader.begin(1, tmp_path / "snapshot")
    return ShardState(0, 0, wait_for(uploader).files)


@pytest.mark.parametrize("part", ["../", "../../", "/", "./", "..\\", "\0"])
def test_a_manifest_cannot_name_a_file_elsewhere(storage, paths, shard, tmp_path, part):
    file = max(shard.files, key=lambda each: each.size)
    # The content is what was written: nothing but the place is wrong.
    Path(paths.folder, file.path).write_bytes(Path(paths.file(file.path)).read_bytes())
    forged = dataclasses.replace(file, path=f"{part}{file.path}")
    with pytest.raises(CheckpointDamaged, match="a manifest names the stored file"):
        list(checked_chunks(storage, paths, forged))
    with pytest.raises(CheckpointDamaged, match="a manifest names the stored file"):
        restore(storage, paths, ShardState(0, 0, (forged,)), tmp_path / "back")
    assert not (tmp_path / "back").exists()
