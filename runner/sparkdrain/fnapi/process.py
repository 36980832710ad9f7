"""An SDK harness that is a process of this machine, and what every way to live has in common."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi import guard
from sparkdrain.fnapi.errors import DISCONNECTED
from sparkdrain.hosts.orphans import JOB_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

STOP_SECONDS: Final = 10.0
TOLD: Final = "told"
"""The name of ``Life.told`` in the folder of a process."""

_LAST_WORDS_BYTES: Final = 64_000
_LAST_WORDS_SHOWN: Final = 4000
# Java's harness tells its secret. Harnesses of other slots may still use theirs.
_SECRET_OF_JAVA: Final = re.compile(r"^Harness ID .*\n", re.MULTILINE)
_FRAMES_OF_JAVA: Final = re.compile(r"((?:^\tat .*\n){3})(?:^\tat .*\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a process.

    Attributes:
        words: the program and its arguments.
        variables: what it needs beside the environment variables of this process.
        at_the_end: a command that is run when the process has ended, however that was.
    """

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    at_the_end: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HarnessProgram:
    """What runs a harness in a process of its own.

    Attributes:
        name: what messages call it.
        command: what starts it, given the harness's id, the address of its services, and a folder.
        needs_port: whether it reaches services at a TCP port, and not at a Unix socket.
        ends_itself: whether it ends when it has nothing more to do; else it is ended then.
    """

    name: str
    command: Callable[[str, str, Path], Command]
    needs_port: bool = False
    ends_itself: bool = True


class Life:
    """An SDK harness from its start to its end; of one that is far away, nothing is known.

    Attributes:
        is_shared: whether the harness has bundles of other slots, too.
        endpoint: where the harness finds the slot's services.
        told: a file for what the process has told of its own metrics: one for all who ask it. None
            if it is not known who else asks the same process.
        torn_down: set when the harness has said that all of its DoFns are torn down.
    """

    is_shared = False

    def __init__(self, endpoint: str = "", told: Path | None = None) -> None:
        self.endpoint = endpoint
        self.told = told
        self.torn_down = threading.Event()

    def start(self, worker_id: str) -> None:
        """Start the harness.

        Raises:
            HarnessNotStarted: it cannot be started; says what to do.
        """

    def connected(self) -> None:
        """The harness has asked for instructions. Called by a thread of gRPC's."""

    def how_it_ended(self) -> str:
        """How the harness has ended; "" while it runs, or if that cannot be known here."""
        return ""

    def last_words(self) -> str:
        """What the harness wrote last, as the end of a sentence; "" if that is unknown here."""
        return ""

    def stop(self, *, at_once: bool = False) -> None:
        """End it.

        Args:
            at_once: whether it has nothing to do before.
        """


class HarnessProcess(Life):
    """A process that the slot's process starts, and that does not outlive it.

    Args:
        endpoint: the address of the slot's services.
        folder: for what it writes.
    """

    def __init__(self, program: HarnessProgram, endpoint: str, folder: Path) -> None:
        super().__init__(endpoint, folder / TOLD)
        self._program = program
        self._folder = folder
        self._output = folder / "output"
        self._at_the_end: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None

    @override
    def start(self, worker_id: str) -> None:
        command = self._program.command(worker_id, self.endpoint, self._folder)
        self._at_the_end = command.at_the_end
        self._process = start_guarded(command, self._output)

    @override
    def how_it_ended(self) -> str:
        status = None if self._process is None else self._process.poll()
        if status is None:
            return ""
        return ended_with(self._program.name, status, self.last_words())

    @override
    def last_words(self) -> str:
        return written(self._output)

    @override
    def stop(self, *, at_once: bool = False) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        # It was told to end by the end of its requests, and tears its DoFns down now.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS if self._program.ends_itself and not at_once else 0.0)
        with contextlib.suppress(OSError):
            process.stdin.close()
        # Who kills the guard before it has run its last command leaves behind what that removes.
        last = guard.AT_THE_END_SECONDS if self._at_the_end else 0.0
        try:
            process.wait(STOP_SECONDS + last)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode < 0:
            # The guard was killed, and has run nothing at the end.
            guard.run_last(self._at_the_end)


def start_guarded(
    command: Command,
    output: Path,
    *,
    held: str = "",
    stdin: int = subprocess.PIPE,
    kept: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a guard with a command; the process of the guard.

    Args:
        output: a file for what the command writes.
        held: the file that callers lock, if they share the command.
        stdin: the guard's standard input: a descriptor, or ``subprocess.PIPE``.
        kept: descriptors that the guard keeps open.
    """
    program = [sys.executable, "-I", "-S", "-c", inspect.getsource(guard)]
    with output.open("wb") as file:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            [*program, json.dumps(command.at_the_end), held, *command.words],
            stdin=stdin,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**inherited(), **command.variables},
            start_new_session=True,
            pass_fds=kept,
        )


def inherited() -> dict[str, str]:
    """The environment variables that a guard, and what it runs, have of this process.

    Without the job's mark: the guard ends by itself, and must be left to end the harness in order.
    """
    return {name: each for name, each in os.environ.items() if name != JOB_VARIABLE}


def ended_with(name: str, status: int, last_words: str) -> str:
    """How a process has ended, in a sentence, and what it wrote last.

    Args:
        name: what messages call it.
        status: the status of its guard, negative if a signal has ended the guard.
    """
    # The guard ends with 128 and the number of the signal, as a shell does.
    number = -status if status < 0 else status - 128
    known = number in {each.value for each in signal.Signals}
    how = f"the signal {signal.Signals(number).name}" if known else f"status {status}"
    # A harness whose connection has ended ends well: its status does not say what was wrong.
    why = f": {DISCONNECTED}" if status == 0 else ". "
    return f"The process of {name!r} ended with {how}{why}{last_words}"


def written(output: Path) -> str:
    """What a process wrote last into a file, as the end of a sentence."""
    words = b""
    with contextlib.suppress(OSError), output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _LAST_WORDS_BYTES))
        words = file.read(_LAST_WORDS_BYTES)
    said = _SECRET_OF_JAVA.sub("", words.decode(errors="replace"))
    said = _FRAMES_OF_JAVA.sub(r"\1\t...\n", said)
    said = said.strip()[-_LAST_WORDS_SHOWN:]
    return f"The last that it wrote:\n{said}" if said else "It wrote nothing."
