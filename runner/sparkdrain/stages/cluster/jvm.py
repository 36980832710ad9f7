"""Starts Spark's JVM, quietly, and passes on what it and its Python workers print."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import logging
import os
import select
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.own_folder import OwnFolder
from sparkdrain.stages.spark import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
# The JVM says so whatever its settings are; Spark's own scripts ask for that module.
_NOISE: Final = (b"WARNING: Using incubator modules:", b"WARNING: package sun.security.action not")
_PLACE: Final = "-Djava.io.tmpdir"
_LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
_WITH_OPTIONS: Final = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
# Longer than a warden gives its host.
_HOSTS_SECONDS: Final = 25.0
_LAST_WORDS: Final = 100
_LAST_WORD_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Launched:
    """A JVM that runs, but that PySpark does not know of yet.

    Attributes:
        gateway: PySpark's way to it.
        output: where what it prints can be read; nothing if it was there before.
        folder: for its temporary files; None if they are where Java has them.
    """

    properties: tuple[tuple[str, str], ...]
    gateway: Any
    output: int
    folder: OwnFolder | None = None

    def use(self) -> None:
        """Make it the JVM of this process, and pass on what it prints."""
        driver.use_jvm(self.gateway)
        bridge = logging.getLogger("py4j")
        if bridge.level == logging.NOTSET:
            # At INFO it tells of each thread that has ended.
            bridge.setLevel(logging.WARNING)
        atexit.register(self.clean_up)
        _pass_on(self.output, self._clean_up_later)

    def folders_in(self, places: str) -> str:
        """Folders for the JVM in ``places``, which Spark takes apart at commas.

        They are removed with the JVM. The places themselves where no folder can be made.
        """
        return places if self.folder is None else _folders_in(self.folder, places)

    def remove_at_its_end(self) -> None:
        """Have the JVM remove its folders when it ends. Call this when Spark has started, or not.

        The JVM ends with its driver, also in the middle of Spark's start. If it removed its
        folders then, the start would make some of them again, and no list would be left that tells
        the next process what to remove.
        """
        if self.folder is not None and not self._has_ended():
            for folder in (self.folder.path, *self.folder.elsewhere()):
                driver.remove_at_its_end(folder)

    def clean_up(self) -> None:
        """Remove the files of a JVM that was killed; one that is alive removes its own."""
        if self.folder is not None and self._has_ended():
            self.folder.remove()

    def _has_ended(self) -> bool:
        # Behind spark-submit the JVM is the parent of this process.
        process = self.gateway.proc
        return process is not None and process.poll() is not None

    def _clean_up_later(self) -> None:
        # In a thread that no program waits for. Hosts keep state there until they have ended.
        time.sleep(_HOSTS_SECONDS)
        self.clean_up()

    def end(self) -> None:
        """Do without it."""
        os.close(self.output)
        self.gateway.shutdown()
        if self.gateway.proc is not None:
            self.gateway.proc.kill()
            self.gateway.proc.wait()
        if self.folder is not None:
            self.folder.remove()


def launch(properties: Sequence[tuple[str, str]]) -> Launched:
    """Start a JVM.

    Args:
        properties: what must be known before it starts (its memory, its class path).

    Raises:
        PySparkRuntimeError: it ended at once.
    """
    folder = _folder()
    reading, writing = os.pipe()
    start = _Start(stderr=writing, start_new_session=True)
    if folder is not None:
        start.keep_files_in(folder, local="spark.master" not in dict(properties))
    try:
        gateway = driver.launch(properties, start, None if folder is None else folder.path)
    except BaseException:
        os.close(reading)
        if folder is not None:
            folder.remove()
        raise
    finally:
        os.close(writing)
    return Launched(tuple(properties), gateway, reading, folder)


def _folder() -> OwnFolder | None:
    """A folder for files of a JVM, where Java would have them; None if none can be made there."""
    place = "/tmp" if sys.platform == "linux" else tempfile.gettempdir()  # noqa: S108 - Java's own
    try:
        return OwnFolder.make([place], for_sockets=False)
    except OSError:
        return None


def start_jvm(
    properties: Sequence[tuple[str, str]], ahead: Launched | None = None
) -> Launched | None:
    """Start the JVM that this process will use; None if there is one already.

    Args:
        properties: see ``launch``.
        ahead: a JVM that was started before its use was certain. Ended if it does not fit.

    Raises:
        PySparkRuntimeError: it ended at once.
    """
    wanted = not driver.has_jvm()
    if ahead is not None and not (wanted and ahead.properties == tuple(properties)):
        ahead.end()
        ahead = None
    if not wanted:
        return None
    started = ahead or launch(properties)
    started.use()
    return started


class _Start(dict[str, Any]):
    """How to start the JVM: quietly, in a session of its own, which Ctrl-C does not reach.

    PySpark would run code between fork and exec for that, which threads of gRPC do not take well.
    """

    _place: OwnFolder | None = None
    _local = False

    def keep_files_in(self, folder: OwnFolder, *, local: bool) -> None:
        """Have the JVM keep its files in ``folder``, which counts as used while the JVM lives.

        Args:
            folder: for the JVM.
            local: whether the folders for Spark's local files are of this machine only.
        """
        self._place, self._local = folder, local
        self["pass_fds"] = (folder.lock,)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "env":
            # Spark's script would start a Python to find the same.
            value = {"SPARK_HOME": driver.spark_home(), **quiet(value)}
            if self._place is not None:
                value = with_place(value, self._place.path)
            if self._place is not None and self._local and (given := value.get(_LOCAL_DIRS)):
                value[_LOCAL_DIRS] = _folders_in(self._place, given)
        if key != "preexec_fn":
            super().__setitem__(key, value)


def _folders_in(folder: OwnFolder, places: str) -> str:
    try:
        made = [folder.make_elsewhere(place.strip()) for place in places.split(",") if place]
    except OSError:
        return places  # Spark says what is wrong there
    return ",".join(made)


def quiet(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with JVM options that keep Spark from greeting, unless the user configures it."""
    given = environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j" not in given and not _has_log_configuration(environ):
        given = f"{given} -Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}".strip()
    return {**environ, "SPARK_SUBMIT_OPTS": given}


def with_place(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """``environ`` with a JVM option for the folder for temporary files, unless the user has one."""
    if any(_PLACE in environ.get(name, "") for name in _WITH_OPTIONS):
        return dict(environ)
    options = f"{environ.get('SPARK_SUBMIT_OPTS', '')} {_PLACE}={folder}".strip()
    return {**environ, "SPARK_SUBMIT_OPTS": options}


def _has_log_configuration(environ: Mapping[str, str]) -> bool:
    home = environ.get("SPARK_HOME")
    directory = environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    return directory is not None and any(Path(directory).glob("log4j2.*"))


def _pass_on(source: int, afterwards: Callable[[], None]) -> None:
    """Copy to ``sys.stderr`` as it is at that time: a notebook's cell, a live display."""
    pump = PipePump(source, _to_stderr)

    def run() -> None:
        pump.run()
        afterwards()

    threading.Thread(target=run, name="sparkdrain-jvm-output", daemon=True).start()
    atexit.register(pump.finish)


class PipePump:
    """Passes on what can be read from a pipe, but for the lines that say nothing."""

    def __init__(self, source: int, take: Callable[[str], object]) -> None:
        self._source = source
        self._take = take
        self._ended = threading.Event()

    def run(self) -> None:
        """Pass on until the other end is closed."""
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        held = b""
        while chunk := os.read(self._source, 1 << 16):
            *lines, last = (held + chunk).split(b"\n")
            # A line that is not complete comes out at once, unless it may turn out to be noise.
            held = last if _may_be_noise(last) else b""
            kept = [line + b"\n" for line in lines if not line.startswith(_NOISE)]
            self._take(decode(b"".join(kept) + (b"" if held else last)))
        self._take(decode(held, final=True))
        self._ended.set()

    def finish(self) -> None:
        """Give what was printed before the program's end a moment to come through."""
        for _ in range(_LAST_WORDS):
            waiting = select.select([self._source], [], [], 0)[0]
            if not waiting or self._ended.wait(_LAST_WORD_SECONDS):
                return


def _may_be_noise(start: bytes) -> bool:
    return bool(start) and any(
        noise.startswith(start) or start.startswith(noise) for noise in _NOISE
    )


def _to_stderr(text: str) -> None:
    # Nowhere to print: a windowed program, or a stream that was closed meanwhile.
    with contextlib.suppress(AttributeError, ValueError, OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
