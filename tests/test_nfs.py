"""A folder on NFS is told of, unless it is mounted so that all machines see the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkdrain import nfs
from sparkdrain.rounds.driver.durable import DurableJob

LOCAL = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"
SHARED = "40 27 0:50 / {point} rw,relatime shared:5 - nfs4 server:/export rw,vers=4.2{options}"
SAFE = ",lookupcache=none,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0"


def mounts(point, options="", *more):
    return "\n".join([LOCAL, SHARED.format(point=point, options=options), *more, ""])


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Has the system say that a folder is on NFS, with such options."""

    def mount(point, options):
        file = tmp_path / "mountinfo"
        file.write_text(mounts(str(point).replace(" ", r"\040"), options))
        monkeypatch.setattr(nfs, "MOUNTINFO", file)

    return mount


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/mnt/share/checkpoints", "/mnt/share"),
        ("/mnt/share", "/mnt/share"),
        ("/mnt/shared", "/"),
        ("/mnt/share/scratch/x", "/mnt/share/scratch"),
        ("/mnt", "/"),
    ],
)
def test_a_path_is_on_what_is_mounted_nearest_to_it(path, point):
    scratch = "41 40 0:51 / /mnt/share/scratch rw - tmpfs tmpfs rw"
    text = mounts("/mnt/share", "", scratch)
    assert nfs.mount_of(Path(path), text).point == point
    backwards = "\n".join(reversed(text.splitlines()))
    assert nfs.mount_of(Path(path), backwards).point == point


def test_what_is_mounted_last_at_a_point_counts():
    over = "41 40 0:51 / /mnt/share rw - tmpfs tmpfs rw"
    assert nfs.mount_of(Path("/mnt/share/a"), mounts("/mnt/share", "", over)).kind == "tmpfs"


@pytest.mark.parametrize("text", ["", "garbage", "1 2 3 - nfs", "\n\n"])
def test_what_is_no_mount_is_passed_over(text):
    assert nfs.mount_of(Path("/mnt"), text) is None


@pytest.mark.parametrize(
    "options", [SAFE, ",lookupcache=none,noac", ",noac,lookupcache=none", f"{SAFE},actimeo=0"]
)
def test_a_mount_that_shows_what_is_there_is_not_told_of(mounted, tmp_path, options):
    mounted(tmp_path, options)
    assert nfs.warning("--checkpoint_dir", tmp_path / "new") is None


@pytest.mark.parametrize(
    "options",
    ["", ",noac", ",lookupcache=none", ",lookupcache=pos,noac", ",lookupcache=none,acdirmin=0"],
)
def test_a_mount_that_may_show_what_was_there_is_told_of(mounted, tmp_path, options):
    mounted(tmp_path, options)
    told = nfs.warning("--checkpoint_dir", tmp_path / "new")
    assert told.startswith(f"--checkpoint_dir is on NFS: server:/export, mounted at {tmp_path}")
    assert "lookupcache=none,actimeo=0" in told


def test_a_link_to_a_share_is_on_the_share(mounted, tmp_path):
    share = tmp_path / "a share"
    share.mkdir()
    (tmp_path / "link").symlink_to(share)
    mounted(share, "")
    assert str(share) in nfs.warning("--checkpoint_dir", tmp_path / "link" / "new")
    assert nfs.warning("--checkpoint_dir", tmp_path / "elsewhere") is None


def test_a_system_that_does_not_say_what_is_mounted_is_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(nfs, "MOUNTINFO", tmp_path / "none")
    assert nfs.warning("--checkpoint_dir", tmp_path) is None


def test_a_job_tells_of_checkpoints_on_nfs(mounted, tmp_path):
    mounted(tmp_path, "")
    durable = DurableJob.at(str(tmp_path / "kept"), "job", "run", {}, 1, 2)
    (told,) = durable.keep_to(group=False)
    assert told.startswith("--checkpoint_dir is on NFS")
