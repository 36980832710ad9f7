"""A JVM that waits in a driver for the next job, with the class path of the last one.

See ``SpareProcess``; its file is ``waiting-DIGEST``. A JVM that still loads classes or rehearses is
taken, too: it leaves the rest, and is ahead of a new one all the same. The file ``rehearsal`` is
there until it listens to slots.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.java import shared_java
from sparkdrain.fnapi.jvm_rehearsal import JvmRehearsal
from sparkdrain.fnapi.process import Command
from sparkdrain.fnapi.shared_process import SharedProcess, SpareProcess, lines

if TYPE_CHECKING:
    from pathlib import Path

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
    waiting, rehearsed = class_paths.waiting_file(place, known.name), place / _REHEARSAL
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
