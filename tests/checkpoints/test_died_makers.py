"""What is written survives a loss of power, also in a folder that a process made and then died."""

from __future__ import annotations

import os
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from sparkdrain import access
from sparkdrain.checkpoints.local_storage import LocalStorage
from sparkdrain.checkpoints.storage import read
from sparkdrain.coordination.backends.file import FileStore
from tests.support.lossy_disk import NO_DISK, LossyDisk, Nothing

pytestmark = pytest.mark.skipif(bool(NO_DISK), reason=NO_DISK)
CHANGES = 40


class AFile:
    @staticmethod
    def write(root):
        LocalStorage().write(f"{root}/files/a", [b"1"])

    @staticmethod
    def check(root):
        assert read(LocalStorage(), f"{root}/files/a") == b"1"


class AManifest:
    @staticmethod
    def write(root):
        LocalStorage().publish(f"{root}/manifests/1/a", b"1")

    @staticmethod
    def check(root):
        assert read(LocalStorage(), f"{root}/manifests/1/a") == b"1"


class ARecord:
    @staticmethod
    def write(root):
        FileStore(Path(root) / "runs").put("space", "a", b"1")

    @staticmethod
    def check(root):
        assert FileStore(Path(root) / "runs").get("space", "a").value == b"1"


KINDS = {kind.__name__: kind for kind in (AFile, AManifest, ARecord)}


def child(disk, work, change=None) -> int:
    """A process that works, and dies at a change of the disk; 0 if it has come to its end."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.read(told, 1)  # the disk knows when it is to die
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - it ends without pytest, which would say why
            traceback.print_exc()
        finally:
            os._exit(code)
    disk.lose_power_at(pid, change)
    os.write(tell, b"1")
    for end in (told, tell):
        os.close(end)
    return os.waitpid(pid, 0)[1]


def survives(place, name) -> int:
    """At how many changes the first writer was made to die."""
    kind = KINDS[name]
    for change in range(CHANGES):
        disk = LossyDisk(place / str(change))
        try:
            root = str(disk.path / "above/here")

            # As a driver does when it starts, before its hosts write.
            assert child(disk, lambda root=root: access.prepare(Path(root), group=False)) == 0
            ended = child(disk, lambda root=root: kind.write(root), change) == 0
            disk.keep_power()
            assert child(disk, lambda root=root: kind.write(root)) == 0
            disk.lose_power(Nothing())
            assert child(disk, lambda root=root: kind.check(root)) == 0, change
        finally:
            disk.close()
        if ended:
            return change
    return 0


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_survives_whoever_made_its_folder_and_died(tmp_path, name):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        assert apart.submit(survives, tmp_path, name).result() > 5


def in_a_namespace_of_another(place) -> None:
    disk = LossyDisk(place)
    try:
        root = disk.path / "here"

        def write() -> None:
            root.mkdir()
            store = FileStore(root / "runs")
            (root / "runs/space").mkdir()  # by another process, which dies then
            store.put("space", "a", b"1")

        assert child(disk, write) == 0
        disk.lose_power(Nothing())
        assert child(disk, lambda: ARecord.check(root)) == 0
    finally:
        disk.close()


def test_a_record_survives_in_a_namespace_that_another_process_has_made_since(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        apart.submit(in_a_namespace_of_another, tmp_path / "disk").result()
