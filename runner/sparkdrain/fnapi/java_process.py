"""Java's SDK harness of a slot, in the JVM that the slots of an executor share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi import class_paths
from sparkdrain.fnapi.java import JAVA_HARNESS
from sparkdrain.fnapi.process import STOP_SECONDS, TOLD, Command, Life
from sparkdrain.fnapi.shared_process import SharedPlace, SharedProcess, SlotInProcess
from sparkdrain.fnapi.spare_jvm import shared_java, take

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_LOADED: Final = "loaded"


@dataclass(frozen=True, slots=True)
class Jars:
    """The class path of harnesses.

    Attributes:
        files: by name, in their order.
        hashes: the SHA-256 of those of which it is known.
        class_path: the class path, given a folder for links; raises ``HarnessNotStarted``.
    """

    files: Mapping[str, Path]
    hashes: Mapping[str, str]
    class_path: Callable[[Path], str]


class JavaProcess(Life):
    """A harness in a JVM that slots share: the one that waits with the class path, or a new one.

    A new one leaves its class path behind, so that a JVM waits for the next job.

    Args:
        variables: what the harness of a worker id reads of its environment.
        endpoint: the address of the slot's services.
        place: where the slots of the executor find the JVM.
        waiting: where the JVM of this slot's driver waits; None if none ever does.
    """

    def __init__(
        self,
        jars: Jars,
        variables: Callable[[str], Mapping[str, str]],
        endpoint: str,
        place: SharedPlace,
        waiting: Path | None,
    ) -> None:
        super().__init__(endpoint)
        self._jars = jars
        self._variables = variables
        self._place = place
        self._waiting = waiting
        self._slot: SlotInProcess | None = None
        self._new: SharedProcess | None = None

    @override
    def start(self, worker_id: str) -> None:
        self._slot = self._place.enter(self._waiting_or_new, self._variables(worker_id))
        self.told = self._slot.folder / TOLD

    def _waiting_or_new(self) -> SharedProcess:
        """The JVM that waits, or a new one."""
        if self._waiting is not None:
            digest = class_paths.digest_of(self._jars.files, self._jars.hashes)
            taken = take(self._waiting, digest)
            if taken is not None:
                class_paths.use(self._known, digest)
                return taken
        self._new = SharedProcess.start(self._command)
        return self._new

    def _command(self, folder: Path) -> Command:
        loaded = f"-Xlog:class+load:file={folder / _LOADED}:none"
        options = () if self._waiting is None else (loaded,)
        return Command(shared_java(folder, self._jars.class_path(folder), *options))

    @override
    def connected(self) -> None:
        if self._slot is not None:
            self._slot.connected()

    @override
    def how_it_ended(self) -> str:
        return "" if self._slot is None else self._slot.how_it_ended(JAVA_HARNESS)

    @override
    def last_words(self) -> str:
        return "" if self._slot is None else self._slot.last_words()

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._slot is None:
            return
        # Before the JVM has ended: the job's files go when the job is over.
        if self._new is not None and self._waiting is not None and not at_once:
            class_paths.remember(
                self._known, self._jars.files, self._jars.hashes, self._new.folder / _LOADED
            )
        self._slot.finish(self.torn_down, 0.0 if at_once else STOP_SECONDS)
        self._slot.let_go()

    @property
    def _known(self) -> Path:
        return Path(os.environ[class_paths.CLASS_PATHS])
