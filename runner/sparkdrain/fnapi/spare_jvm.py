"""A JVM that waits in a driver to be Java's SDK harness, and what a slot does to get it.

The JVM has a folder beside its jars: ``starting`` while it loads classes, ``waiting-DIGEST`` when
it is ready. A slot takes the JVM by renaming that, which one slot alone can do. In the folder is a
pipe. The JVM reads the variables of the harness from it, and ends when the slot lets it go. Beam's
harness takes up to a second to close its log; the slot does not wait for that.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.java import java_program
from sparkdrain.fnapi.jvm_rehearsal import JvmRehearsal
from sparkdrain.fnapi.process import HarnessProcess, written

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from sparkdrain.fnapi.process import Command

_PROGRAM: Final = Path(__file__).with_name("SpareHarness.java")
_STARTING: Final = "starting"
# Both as in the program.
_PIPE: Final = "pipe"
_FOLDER: Final = "SPARKDRAIN_FOLDER"
_OUTPUT: Final = "output"
_REHEARSED: Final = "rehearsal"
# Any byte says that the harness is to end.
_END: Final = b"."
_LOOK_SECONDS: Final = 0.01


class SpareJvm:
    """The JVM of a driver, which waits for the class path of the newest job.

    Args:
        place: a folder to make.
        process: the JVM.
        digest: of its class path.
    """

    def __init__(self, place: Path, process: HarnessProcess, digest: str) -> None:
        self._process = process
        self._waiting = place / _waiting(digest)

    @classmethod
    def start(cls, home: Path, place: Path, now: float) -> SpareJvm | None:
        """Start it; None if there is no class path that a job had lately.

        Args:
            home: where class paths are, see ``class_paths``.
            place: where the JVM is to wait.
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
        folder, waiting = place / _STARTING, place / _waiting(known.name)
        folder.mkdir()
        os.mkfifo(folder / _PIPE, 0o600)
        rehearsal = JvmRehearsal(place, lambda: not folder.exists() or bool(process.how_it_ended()))
        rehearsed = place / _REHEARSED
        rehearsed.write_text(_lines(rehearsal.variables), "utf-8")
        told = [str(classes), str(folder), str(waiting), str(rehearsed)]

        def command(_: str) -> Command:
            path = os.pathsep.join(map(str, jars))
            return [java_program(), "-cp", path, str(_PROGRAM), *told], {}

        process = HarnessProcess("a spare JVM", command, "", folder, ends_itself=False)
        process.start("")
        rehearsal.begin()
        return cls(place, process, known.name)

    def end_unless_taken(self) -> None:
        """End the JVM, unless it is a harness now. That ends with its slot, or this process."""
        with contextlib.suppress(OSError):
            self._waiting.rename(self._waiting.with_name("unused"))
        if not list(self._waiting.parent.glob(f"{_taken('')}*")):
            self._process.stop(at_once=True)


class TakenJvm:
    """A JVM that has waited, and is the harness of a slot now.

    Args:
        folder: of the JVM.
        pipe: the end to write to.
    """

    def __init__(self, folder: Path, pipe: int) -> None:
        self._folder = folder
        self._pipe: int | None = pipe

    @classmethod
    def take(
        cls, place: Path, digest: str, worker_id: str, variables: Mapping[str, str]
    ) -> TakenJvm | None:
        """Take the JVM that waits with a class path, and make it a harness; None if none does.

        Args:
            place: where it waits.
            digest: of the class path.
            variables: that the harness reads; no value has two lines.
        """
        folder = place / _taken(worker_id)
        try:
            (place / _waiting(digest)).rename(folder)
            # Fails if nobody reads: it has ended.
            pipe = os.open(folder / _PIPE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            os.write(pipe, _lines({**variables, _FOLDER: str(folder)}).encode())
        except OSError:
            os.close(pipe)
            return None
        return cls(folder, pipe)

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Whether the JVM has ended, or does within so many seconds."""
        if self._pipe is None:
            return True
        look = select.poll()
        look.register(self._pipe, 0)  # an error is told in any case: nobody reads
        return bool(look.poll(seconds * 1000))

    def finish(self, torn_down: threading.Event, seconds: float) -> None:
        """Wait until a harness that is to end has, or has nothing left to do but to close its log.

        Args:
            torn_down: set when the harness says so.
            seconds: how long to wait at most.
        """
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, _END)
        until = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until:
            if torn_down.wait(_LOOK_SECONDS):
                return

    def last_words(self) -> str:
        """What it wrote last, as the end of a sentence."""
        return written(self._folder / _OUTPUT)

    def let_go(self) -> None:
        """Have the JVM end, if it has not."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _lines(variables: Mapping[str, str]) -> str:
    """Variables as the program reads them, up to an empty line."""
    return "".join(f"{name}={value}\n" for name, value in variables.items()) + "\n"


def _waiting(digest: str) -> str:
    return f"waiting-{digest}"


def _taken(worker_id: str) -> str:
    return f"taken-{worker_id}"
