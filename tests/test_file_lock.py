"""Nothing waits for ever for a lock that another process keeps, and who keeps it is named."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparkdrain
from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.file_lock import open_locked
from sparkdrain.hosts.home import Home
from sparkdrain.local_state.folder import StateFolder
from sparkdrain.local_state.notes import HeldNote
from sparkdrain.stages.workers.packages import use_packages

SOURCES = Path(sparkdrain.__file__).parent
KEEP = """
import fcntl, sys, time
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(10)
"""
SECONDS = 0.2


def install_packages(folder: Path) -> None:
    (folder / "packages").mkdir(exist_ok=True)
    (folder / "packages" / "complete").touch()
    use_packages(folder / "packages.zip", folder, seconds=SECONDS - 30)


def start_a_host(folder: Path) -> None:
    with Home(folder, 3, SECONDS).locked():
        pass


def keep_files(folder: Path) -> None:
    with StateFolder(folder, SECONDS).shared():
        pass


@pytest.mark.parametrize(
    ("lock", "use"),
    [
        ("packages.lock", install_packages),
        ("3.lock", start_a_host),
        ("a-note.lock", lambda folder: HeldNote(folder, "a-note", SECONDS).close()),
        ("lock", keep_files),
        ("lock", lambda folder: FileStore(folder, SECONDS).close()),
    ],
    ids=["packages", "host", "note", "files", "records"],
)
def test_who_keeps_a_lock_is_named_and_nobody_waits_for_it_for_ever(tmp_path, lock, use):
    command = [sys.executable, "-c", KEEP, str(tmp_path / lock), "password"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "locked\n"
            told = f"has been locked for 0.2 s by process {other.pid} "
            with pytest.raises(Exception, match=told) as caught:
                use(tmp_path)
        finally:
            other.kill()
    assert f"({sys.executable}) of this machine" in str(caught.value)
    assert "password" not in str(caught.value)
    use(tmp_path)


def test_a_file_that_was_removed_by_who_had_its_lock_is_made_anew(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    code = KEEP.replace("time.sleep(10)", "time.sleep(0.3); import os; os.unlink(sys.argv[1])")
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        descriptor = open_locked(path, 60)
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    os.close(descriptor)


def test_every_lock_of_the_product_is_waited_for_in_a_limited_time():
    """``flock`` is called without LOCK_NB nowhere, except to give a lock back."""
    waiting = []
    for file in SOURCES.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "flock" in text:
            for call in ast.walk(ast.parse(text)):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "fcntl.flock":
                    how = ast.unparse(call.args[1])
                    if (
                        not {"LOCK_NB", "LOCK_UN"} & set(re.findall(r"LOCK_\w+", how))
                        and file.name != "file_lock.py"
                    ):
                        waiting.append(f"{file}: {how}")
    assert waiting == []
