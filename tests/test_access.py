"""Folders of state: for this user only, or for a group that was named; others are warned of."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkdrain import access
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.storage import LocalFile
from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.rounds.driver.durable import DurableJob
from tests.support.stranger import UID, as_stranger, stranger


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids=lambda mask: f"umask {mask:03o}")
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def place():
    """A folder that every user may look into; what is in it is guarded by its own mode alone."""
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o755)
    yield Path(folder)
    shutil.rmtree(folder)


def write_state(place: Path, *, group: bool = False) -> Path:
    """All that a job keeps in ``--checkpoint_dir``, made as a driver does; the folder."""
    root = place / "checkpoints"
    access.prepare(root / "@runs", group=group)
    durable = DurableJob.at(str(root), "job", "run", {}, 1, 3)
    assert list(durable.keep_to(group=group)) == []
    durable.take(resume=False)
    storage, files = LocalStorage(), durable.paths.files
    storage.publish(durable.paths.manifests + "/1/x.manifest", b"x")
    storage.write(f"{files}/made", [b"made"])
    source = place / "source"
    source.write_bytes(b"linked")
    source.chmod(0o666)
    storage.write(f"{files}/linked", LocalFile(source, lambda: None))
    FileStore(root / "@runs").put("space", "key", b"value")
    return root


def modes(root: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"folders": set(), "files": set()}
    for path in [root, *root.rglob("*")]:
        kind = "folders" if path.is_dir() else "files"
        found[kind].add(stat.S_IMODE(path.stat().st_mode))
    return found


def test_state_is_for_this_user_only_whatever_the_umask_is(umask, tmp_path):
    assert modes(write_state(tmp_path)) == {"folders": {0o700}, "files": {0o600}}


def test_state_is_for_the_group_if_the_option_says_so(umask, tmp_path):
    root = write_state(tmp_path, group=True)
    assert modes(root) == {"folders": {0o2770}, "files": {0o660}}


def test_state_that_was_private_is_opened_to_the_group_by_the_option(tmp_path):
    root = write_state(tmp_path)
    write_state(tmp_path, group=True)
    assert modes(root / "job") == {"folders": {0o2770}, "files": {0o660}}
    assert modes(root / "@runs") == {"folders": {0o2770}, "files": {0o660}}


def test_a_lock_that_an_earlier_release_made_for_everybody_is_closed_to_others(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    (store / "lock").touch()
    (store / "lock").chmod(0o644)
    FileStore(store).put("space", "key", b"value")
    assert stat.S_IMODE((store / "lock").stat().st_mode) == 0o600


@as_stranger
def test_another_user_can_neither_read_nor_lock_nor_write(place):
    before = os.umask(0)
    try:
        root = write_state(place)
    finally:
        os.umask(before)
    files = [str(path) for path in root.rglob("*") if path.is_file()]
    assert len(files) >= 6
    tried = """
for path in sys.argv[1:]:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(path, flags)
            print(path)
        except PermissionError:
            pass
for path in {os.path.dirname(path) for path in sys.argv[1:]}:
    try:
        open(path + "/planted", "w")
        print(path)
    except PermissionError:
        pass
"""
    assert stranger(tried, *files) == ""


def complaints(folder: Path, *, group: bool = False) -> str:
    return "\n".join(access.complaints(folder, group=group))


def test_a_folder_that_others_may_write_is_complained_of(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir(mode=0o700)
    assert complaints(folder) == ""
    folder.chmod(0o777)
    assert f"may write {folder} (mode 0777)" in complaints(folder)
    assert "unpickled" in complaints(folder)
    folder.chmod(0o755)
    (folder / "job").mkdir()
    (folder / "job").chmod(0o757)
    assert f"may write {folder / 'job'} (mode 0757)" in complaints(folder)
    assert f"may write {folder / 'job'} (mode 0757)" in complaints(folder / "job" / "files")


def test_a_folder_in_which_everybody_may_have_folders_of_their_own_is_not(tmp_path):
    folder = tmp_path / "like_tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "of_others").mkdir()
    (folder / "of_others").chmod(0o777)
    (folder / "job").mkdir(mode=0o700)
    assert complaints(folder) == ""
    assert complaints(folder / "job") == ""


@as_stranger
def test_a_group_that_may_write_is_complained_of_unless_the_option_says_so(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    os.chown(folder, -1, UID)
    folder.chmod(0o770)
    assert "(mode 0770)" in complaints(folder)
    assert complaints(folder, group=True) == ""


@as_stranger
def test_a_folder_of_another_user_is_complained_of(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir(mode=0o700)
    os.chown(folder, UID, -1)
    assert f"{folder}, which belongs to the user {UID}" in complaints(folder)
    durable = DurableJob.at(str(folder), "job", "run", {}, 1, 3)
    assert any(f"belongs to the user {UID}" in each for each in durable.keep_to(group=False))


def test_folders_are_made_whole_while_other_processes_make_them_too(tmp_path):
    code = "import sys; from pathlib import Path; from sparkdrain import access\n"
    code += "access.prepare(Path(sys.argv[1]), group=False)"
    deep = tmp_path / "a" / "b" / "c"
    started = [subprocess.Popen([sys.executable, "-c", code, str(deep)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert modes(tmp_path / "a") == {"folders": {0o700}, "files": set()}
