"""A JVM that waits in a driver for the next job, with the class path of the last one.

See ``spare_process``; its file is ``waiting-DIGEST``. A JVM that still loads classes or rehearses
is taken, too: it leaves the rest, and is ahead of a new one all the same. The file ``rehearsal`` is
there until it listens to slots.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.java import java_program
from sparkdrain.fnapi.jvm_rehearsal import JvmRehearsal
from sparkdrain.fnapi.process import Command
from sparkdrain.fnapi.shared_process import PROGRAM, SharedProcess, lines
from sparkdrain.fnapi.spare_process import SpareProcess, taken_by

if TYPE_CHECKING:
    from pathlib import Path

_MEMORY: Final = "MaxRAMPercentage"
_USERS_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_REHEARSAL: Final = "rehearsal"


def start_spare_jvm(home: Path, place: Path, now: float) -> SpareProcess | None:
    """Start the JVM of a driver; None if there is no class path that a job had lately.

    Args:
        home: where class paths are, see ``class_paths``.
        place: a folder to make, where the JVM is to wait.
        now: seconds since 1970.

    Raises:
        OSError: it cannot be started.
    """
    known = class_paths.newest(home, now)
    jars = [] if known is None else class_paths.copied_jars(known, place / "jars")
    if known is None or not jars:
        shutil.rmtree(place, ignore_errors=True)
        return None
    classes = place / class_paths.CLASSES
    classes.write_bytes((known / class_paths.CLASSES).read_bytes())
    waiting, rehearsed = _waiting(place, known.name), place / _REHEARSAL
    rehearsal = JvmRehearsal(
        place,
        is_taken=lambda: not waiting.exists(),
        is_over=lambda: not rehearsed.exists() or jvm.status() is not None,
    )
    rehearsed.write_text(lines(rehearsal.variables), "utf-8")

    def command(folder: Path) -> Command:
        # Slots can connect from now on, see `SharedProcess.start`.
        waiting.write_text(str(folder), "utf-8")
        told = [str(classes), str(waiting), str(rehearsed)]
        return Command([*shared_java(folder, os.pathsep.join(map(str, jars))), *told])

    jvm = SharedProcess.start(command)
    rehearsal.begin()
    return SpareProcess(jvm, waiting)


def take(place: Path, digest: str) -> SharedProcess | None:
    """Take the JVM that waits with a class path; None if none does.

    Args:
        place: where it waits.
        digest: the digest of the class path, see ``class_paths.digest_of``.
    """
    return taken_by(_waiting(place, digest))


def shared_java(folder: Path, class_path: str, *options: str) -> list[str]:
    """The command of a JVM that slots share, without the arguments of its program.

    Args:
        folder: the JVM's folder. The program is put there, since executors have this package as
            an archive, in which Java cannot run a program.
        class_path: the class path of the harness.
        options: for Java.
    """
    source = pkgutil.get_data(__package__, PROGRAM)
    assert source is not None
    program = folder / PROGRAM
    program.write_bytes(source)
    # A JVM takes a quarter of the memory at most, unless it is told otherwise. An -Xmx that the
    # user gives counts anyway.
    is_told = any(_MEMORY in os.environ.get(name, "") for name in _USERS_OPTIONS)
    memory = () if is_told else (f"-XX:{_MEMORY}=50",)
    return [java_program(), *memory, *options, "-cp", class_path, str(program)]


def _waiting(place: Path, digest: str) -> Path:
    return place / f"waiting-{digest}"
