"""Java's SDK harness, started from the jars that the pipeline brings, without a container.

The slots of an executor share a JVM, if its Java can do that.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format, text_format
from typing_extensions import override

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.process import Command
from sparkdrain.fnapi.provision import RUNNER_CAPABILITIES, options_struct, with_cache
from sparkdrain.fnapi.public_name import thread_group
from sparkdrain.fnapi.shared_process import (
    PROGRAM,
    SharedHarness,
    SharedPlace,
    SharedProcess,
    taken_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

JAVA_HARNESS: Final = "Java's SDK harness"
"""What messages call it."""
JAVA_MAIN: Final = "org.apache.beam.fn.harness.FnHarness"
_CLASS: Final = JAVA_MAIN.replace(".", "/") + ".class"
_LOADED: Final = "loaded"
_MEMORY: Final = "MaxRAMPercentage"
_USERS_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
# Has Unix sockets.
_SHARES: Final = 16


class JavaProcess(SharedHarness):
    """A harness in a JVM that slots share: the one that waits with the class path, or a new one.

    A new one leaves its class path behind, so that a JVM waits for the next job.

    Args:
        jars: the class path: the staged files by name, in their order.
        hashes: the SHA-256 of those of which it is known.
        variables: what the harness of a worker id reads of its environment.
        endpoint: the address of the slot's services.
        place: where the slots of the executor find the JVM.
        waiting: where the JVM of this slot's driver waits; None if none ever does.
    """

    def __init__(
        self,
        jars: Mapping[str, Path],
        hashes: Mapping[str, str],
        variables: Callable[[str], Mapping[str, str]],
        endpoint: str,
        place: SharedPlace,
        waiting: Path | None,
    ) -> None:
        super().__init__(JAVA_HARNESS, endpoint, place)
        self._jars, self._hashes = jars, hashes
        self._variables = variables
        self._waiting = waiting
        self._new: SharedProcess | None = None

    @override
    def start(self, worker_id: str) -> None:
        self.enter(self._waiting_or_new, self._variables(worker_id))

    def _waiting_or_new(self) -> SharedProcess:
        """The JVM that waits, or a new one."""
        if self._waiting is not None:
            digest = class_paths.digest_of(self._jars, self._hashes)
            taken = taken_by(class_paths.waiting_file(self._waiting, digest))
            if taken is not None:
                class_paths.use(self._known, digest)
                return taken
        self._new = SharedProcess.start(self._command)
        return self._new

    def _command(self, folder: Path) -> Command:
        loaded = f"-Xlog:class+load:file={folder / _LOADED}:none"
        options = () if self._waiting is None else (loaded,)
        return Command(shared_java(folder, java_class_path(self._jars, folder), *options))

    @override
    def stop(self, *, at_once: bool = False) -> None:
        # Before the JVM has ended: the job's files go when the job is over.
        if self._new is not None and self._waiting is not None and not at_once:
            loaded = self._new.folder / _LOADED
            class_paths.remember(self._known, self._jars, self._hashes, loaded)
        super().stop(at_once=at_once)

    @property
    def _known(self) -> Path:
        return Path(os.environ[class_paths.CLASS_PATHS])


def java_class_path(jars: Mapping[str, Path], folder: Path) -> str:
    """The class path of a harness: the staged files under the names that they were staged with.

    Args:
        jars: the staged files, by name.
        folder: for links to them.

    Raises:
        HarnessNotStarted: the harness is not among the jars.
    """
    # Beam's own jar of the harness says so in its name. Others take time to look through.
    likely_first = sorted(jars, key=lambda name: "harness" not in name)
    if not any(_has_harness(jars[name]) for name in likely_first):
        message = (
            f"None of the {len(jars)} files that the pipeline has staged has {JAVA_MAIN}, which "
            "runs Java transforms. Add the artifact org.apache.beam:beam-sdks-java-harness, in the "
            "version of the pipeline's Beam, to the class path of the program."
        )
        raise HarnessNotStarted(message)
    named = folder / "jars"
    named.mkdir()
    for name, path in jars.items():
        (named / name).symlink_to(path)
    return os.pathsep.join(str(named / name) for name in jars)


def java_variables(
    options: Mapping[str, Any], worker_id: str, endpoint: str, folder: Path
) -> dict[str, str]:
    """What a harness reads of its environment.

    Args:
        options: the pipeline's options, by plain name.
        endpoint: the address of the slot's services.
        folder: for the options.
    """
    file = folder / "options.json"
    given = options_struct(with_cache(options))
    file.write_text(json.dumps(json_format.MessageToDict(given)))
    here = text_format.MessageToString(descriptor_of(endpoint), as_one_line=True)
    return {
        "HARNESS_ID": worker_id,
        "CONTROL_API_SERVICE_DESCRIPTOR": here,
        "STATUS_API_SERVICE_DESCRIPTOR": here,
        "LOGGING_API_SERVICE_DESCRIPTOR": here,
        "PIPELINE_OPTIONS_FILE": str(file),
        "RUNNER_CAPABILITIES": " ".join(RUNNER_CAPABILITIES),
        # Of the slot's threads, in a JVM that slots share.
        "SPARKDRAIN_GROUP": thread_group(worker_id),
    }


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


def can_share(java: str) -> bool:
    """Whether a Java runs ``SharedHarness.java``: it is Java 16 or later, and has a compiler.

    Args:
        java: the program.
    """
    program = shutil.which(java)
    with contextlib.suppress(OSError):
        about = Path(program or java).resolve().parent.parent.joinpath("release").read_text("utf-8")
        version = re.search(r'^JAVA_VERSION="(\d+)', about, re.MULTILINE)
        modules = re.search(r"^MODULES=.*\bjdk\.compiler\b", about, re.MULTILINE)
        return version is not None and int(version[1]) >= _SHARES and modules is not None
    return False


def java_program() -> str:
    """The Java that executors have for Spark."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def _has_harness(jar: Path) -> bool:
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar) as archive:
        return _CLASS in archive.NameToInfo
