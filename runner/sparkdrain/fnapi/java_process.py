"""Java's SDK harness as a process: the JVM that waits for it, else a new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.process import STOP_SECONDS, Command, HarnessProcess, Life
from sparkdrain.fnapi.spare_jvm import TakenJvm

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

_NAME: Final = "Java's SDK harness"


class JavaProcess(Life):
    """A harness in the JVM that waits with its class path, or in a new JVM.

    A new one leaves its class path behind, so that a JVM waits for the next job.

    Args:
        command: the command for a worker id, and variables.
        jars: the class path, by name.
        hashes: the SHA-256 of those jars of which it is known.
        endpoint: of the slot's services.
        folder: for what the harness writes.
        waiting: where the JVM of this slot's driver waits; None if none ever does.
        torn_down: set when the harness has said that all of its DoFns are torn down. One in a new
            JVM does not say so.
    """

    def __init__(
        self,
        command: Callable[[str], Command],
        jars: Mapping[str, Path],
        hashes: Mapping[str, str],
        endpoint: str,
        folder: Path,
        waiting: Path | None,
        torn_down: threading.Event,
    ) -> None:
        self._command = command
        self._jars = jars
        self._hashes = hashes
        self._waiting = waiting
        self._torn_down = torn_down
        self._loaded = folder / "loaded"
        self._prepared: Command = ([], {})
        self._taken: TakenJvm | None = None
        self._new = HarnessProcess(_NAME, self._new_command, endpoint, folder)

    @property
    @override
    def endpoint(self) -> str:
        return self._new.endpoint

    @override
    def start(self, worker_id: str) -> None:
        self._prepared = self._command(worker_id)
        if self._waiting is not None:
            digest = class_paths.digest_of(self._jars, self._hashes)
            self._taken = TakenJvm.take(self._waiting, digest, worker_id, self._prepared[1])
            if self._taken is not None:
                class_paths.use(self._known, digest)
                return
        self._new.start(worker_id)

    @override
    def how_it_ended(self) -> str:
        if self._taken is None:
            return self._new.how_it_ended()
        if not self._taken.has_ended():
            return ""
        return f"The process of {_NAME!r} has ended. {self._taken.last_words()}"

    @override
    def last_words(self) -> str:
        return self._new.last_words() if self._taken is None else self._taken.last_words()

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._taken is not None:
            self._taken.finish(self._torn_down, 0.0 if at_once else STOP_SECONDS)
            self._taken.let_go()
            return
        # Before the JVM has ended: the job's files go when the job is over.
        if self._waiting is not None and not at_once:
            class_paths.remember(self._known, self._jars, self._hashes, self._loaded)
        self._new.stop(at_once=at_once)

    @property
    def _known(self) -> Path:
        return Path(os.environ[class_paths.CLASS_PATHS])

    def _new_command(self, _: str) -> Command:
        (java, *rest), variables = self._prepared
        if self._waiting is None:
            return [java, *rest], variables
        return [java, f"-Xlog:class+load:file={self._loaded}:none", *rest], variables
