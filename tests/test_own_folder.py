"""A process's own temporary folder: for its user only, and gone when the process is."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkdrain import own_folder as own_folder_module
from sparkdrain.own_folder import LONGEST, OwnFolder, is_private, own_room, sweep
from tests.support.waiting import wait_until

OWNER = """
import os, sys, time
os.umask(0)
from sparkdrain.own_folder import OwnFolder
print(OwnFolder.make([sys.argv[1]]).path, flush=True)
time.sleep(100)
"""


@pytest.fixture
def place():
    """A folder whose name is short, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.fixture
def owner(place):
    """Starts a process that has a folder in ``place``; answers both."""
    started = []

    def start() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen([sys.executable, "-c", OWNER, place], stdout=-1, text=True)
        started.append(process)
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_only_this_user_may_enter_it_whatever_the_umask_is(owner):
    _, folder = owner()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert is_private(str(folder))


def test_the_next_process_removes_what_a_killed_one_left_and_nothing_of_a_living_one(owner, place):
    killed, left = owner()
    (left / "x.sock").touch()
    _, kept = owner()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    own = OwnFolder.make([place])
    assert not left.exists()
    assert kept.exists()
    own.remove()
    assert not Path(own.path).exists()


def test_what_has_another_name_or_another_mode_is_not_swept(place):
    other = Path(place, "sparkdrain-owner")
    shared = Path(place, "sparkdrain-own-abcdefgh")
    for folder in (other, shared):
        folder.mkdir()
        (folder / "lock").touch()
    shared.chmod(0o755)
    sweep(place)
    assert other.exists()
    assert shared.exists()


def test_a_folder_without_a_lock_is_swept_only_if_it_is_empty(place):
    empty, full = Path(place, "sparkdrain-own-empty"), Path(place, "sparkdrain-own-full")
    for folder in (empty, full):
        folder.mkdir(mode=0o700)
    (full / "file").touch()
    sweep(place)
    assert not empty.exists()
    assert full.exists()


def test_a_place_in_which_others_can_rename_files_is_not_taken(place):
    rash, sticky = Path(place, "r"), Path(place, "s")
    for folder, mode in ((rash, 0o777), (sticky, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    own = OwnFolder.make([str(rash), str(sticky)])
    assert Path(own.path).parent == sticky
    own.remove()
    with pytest.raises(OSError, match="Name one with TMPDIR"):
        OwnFolder.make([str(rash)])


def test_a_place_with_a_name_too_long_for_sockets_is_not_taken(place):
    long = Path(place, "l" * (LONGEST - len(place)))
    long.mkdir()
    own = OwnFolder.make([str(long), place])
    assert str(Path(own.path).parent) == place
    assert len(own.path) <= LONGEST
    own.remove()


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(place):
    own = OwnFolder.make([place])
    child = os.fork()
    if child == 0:
        own.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert Path(own.path).exists()
    own.remove()


LENDER = """
import subprocess, sys, time
from sparkdrain.own_folder import OwnFolder
own = OwnFolder.make([sys.argv[1]])
elsewhere = own.make_elsewhere(sys.argv[2])
child = subprocess.Popen(["sleep", "100"], pass_fds=[own.lock], stdout=subprocess.DEVNULL)
print(own.path, elsewhere, child.pid, flush=True)
time.sleep(100)
"""


def test_a_folder_stays_while_a_process_lives_that_was_given_its_lock(place):
    process = subprocess.Popen(
        [sys.executable, "-c", LENDER, place, f"{place}/new/disk"], stdout=-1, text=True
    )
    left, elsewhere, child = process.stdout.readline().split()
    Path(elsewhere, "block").touch()
    try:
        assert stat.S_IMODE(Path(elsewhere).stat().st_mode) == 0o700
        process.kill()
        process.communicate()
        sweep(place)
        assert Path(left).exists(), "the child works in it"
        assert Path(elsewhere, "block").exists()
    finally:
        os.kill(int(child), signal.SIGKILL)
    wait_until(lambda: not (sweep(place) or Path(left).exists()))
    assert not Path(elsewhere).exists()
    assert Path(place, "new", "disk").exists(), "it was not made for the process alone"


def test_what_is_elsewhere_goes_with_the_folder_and_a_link_is_not_followed(place):
    own = OwnFolder.make([place])
    gone, replaced = (Path(own.make_elsewhere(place)) for _ in range(2))
    assert own.elsewhere() == [str(gone), str(replaced)]
    kept = Path(place, "kept")
    kept.mkdir()
    (kept / "file").touch()
    replaced.rmdir()
    replaced.symlink_to(kept)
    own.remove()
    assert not Path(own.path).exists()
    assert not gone.exists()
    assert (kept / "file").exists()


def test_a_removal_that_was_not_completed_is_completed_by_the_next_sweep(place, monkeypatch):
    own = OwnFolder.make([place])
    inner = Path(own.path, "inner")
    inner.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        own.remove()
    assert inner.exists()
    sweep(place)
    assert not Path(own.path).exists()


def test_room_for_files_is_among_temporary_files_even_if_sockets_have_no_place_there(
    place, monkeypatch
):
    long = Path(place, "l" * LONGEST)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    for name in ("folder", "room"):
        monkeypatch.setattr(own_folder_module._OfThisProcess, name, None)
    room = own_room()
    assert Path(room).parent == long
    assert own_room() == room
    assert not own_folder_module.own_folder().startswith(place)
    own_folder_module._OfThisProcess.folder.remove()
