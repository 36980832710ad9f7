"""A process's own temporary folder: for its user only, and gone when the process is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkdrain.own_folder import LONGEST, OwnFolder, is_private, sweep

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
