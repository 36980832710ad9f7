"""The part of a slot in an SDK harness that the slots of an executor share, see ``relay``.

A relay may wait in a driver for the next job: it has been started, and has imported gRPC. The slot
that takes it writes down what it is to do, and connects.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi.class_paths import CLASS_PATHS, FRESH_SECONDS
from sparkdrain.fnapi.process import STOP_SECONDS, Command, inherited
from sparkdrain.fnapi.public_name import public_name
from sparkdrain.fnapi.shared_process import (
    SharedHarness,
    SharedPlace,
    SharedProcess,
    SpareProcess,
    taken_by,
)
from sparkdrain.loopback import UNIX

if TYPE_CHECKING:
    from sparkdrain.fnapi.process import HarnessProgram
    from sparkdrain.fnapi.services import SdkServices

SPARE_RELAY: Final = "SPARKDRAIN_SPARE_RELAY"
"""The environment variable with the folder in which the relay of a driver waits, if one does."""

_RELAY: Final = "sparkdrain.fnapi.relay"
_ORDER: Final = "order"
_WAITING: Final = "waiting"
# Beside class paths, whose names have no dot.
_USED: Final = ".relay"
_HARNESS: Final = "harness"
_SOCKET: Final = "fnapi"
# The relay puts its port there.
_ANY_PORT: Final = "127.0.0.1:0"


class RelayedHarness(SharedHarness):
    """A slot's part in a harness that has bundles of several slots at a time.

    Its instructions come by a relay. For elements and state it calls the services of each slot, at
    an address that no other part in a harness has: its connections there end with this part.

    Args:
        place: where the slots of the executor find the harness.
        waiting: where a relay waits in the driver of this slot; None if none ever does.
    """

    is_shared = True

    def __init__(
        self,
        program: HarnessProgram,
        place: SharedPlace,
        services: SdkServices,
        waiting: Path | None = None,
    ) -> None:
        another = services.another_port if program.needs_port else services.another_socket
        super().__init__(program.name, another(), place)
        self._program = program
        self._waiting = waiting
        self._services = services

    @override
    def start(self, worker_id: str) -> None:
        variables = {
            "HARNESS_ID": worker_id,
            "NAME": public_name(worker_id),
            "ENDPOINT": self.endpoint,
        }
        folder = self.enter(self._waiting_or_new, variables)
        harness_id = (folder / _HARNESS).read_text("ascii")
        self._services.admit_also(harness_id, worker_id)

    def _waiting_or_new(self) -> SharedProcess:
        """The relay that waits, or a new one."""
        if self._waiting is not None and not self._program.needs_port:
            use(Path(os.environ[CLASS_PATHS]))
            taken = taken_by(self._waiting / _WAITING)
            if taken is not None:
                try:
                    self._tell(taken)
                except BaseException:
                    taken.let_go()
                    raise
                return taken
        return SharedProcess.start(self._new_relay)

    def _tell(self, relay: SharedProcess) -> None:
        """Tell a relay that was taken what to do, before anything connects to it."""
        words, command = self._relay(relay.folder)
        order = {
            "words": words,
            "variables": {**inherited(), **command.variables},
            "folder": os.getcwd(),
        }
        (relay.folder / _ORDER).write_text(json.dumps(order), "utf-8")

    def _new_relay(self, folder: Path) -> Command:
        words, command = self._relay(folder)
        return Command(_relay_command(*words), command.variables, command.at_the_end)

    def _relay(self, folder: Path) -> tuple[list[str], Command]:
        """What a relay is told, and the command of a new harness."""
        harness_id, own = secrets.token_hex(16), self._program
        address = _ANY_PORT if own.needs_port else f"{UNIX}{folder / _SOCKET}"
        (folder / _HARNESS).write_text(harness_id, "ascii")
        command = own.command(harness_id, address, folder)
        patience = STOP_SECONDS if own.ends_itself else 0.0
        return [harness_id, address, str(patience), *command.words], command

    @override
    def stop(self, *, at_once: bool = False) -> None:
        # Until it has answered all bundles of this slot. The next part begins without them.
        super().stop(at_once=at_once)
        self._services.leave(self.endpoint)


def start_spare_relay(home: Path, place: Path, now: float) -> SpareProcess | None:
    """Start the relay of a driver; None if no job had a relay lately.

    Args:
        home: the server's folder, see ``use``.
        place: a folder to make, where the relay is to wait.
        now: seconds since 1970.

    Raises:
        OSError: it cannot be started.
    """
    used = home / _USED
    if not used.exists() or used.stat().st_mtime <= now - FRESH_SECONDS:
        return None
    place.mkdir(parents=True, exist_ok=True)
    relay = SharedProcess.start(lambda folder: Command(_relay_command(str(folder / _ORDER))))
    waiting = place / _WAITING
    waiting.write_text(str(relay.folder), "utf-8")
    return SpareProcess(relay, waiting)


def use(home: Path) -> None:
    """Note that a job has a relay now.

    Args:
        home: the server's folder, which its next driver looks in.
    """
    with contextlib.suppress(OSError):
        (home / _USED).touch()


def _relay_command(*words: str) -> list[str]:
    """The command of a relay.

    Args:
        words: its arguments; one alone is the file with its order.
    """
    # Executors may have this package as an archive, which user code need not see.
    program = f"import sys; sys.path[:] = {sys.path!r}\nfrom {_RELAY} import main; main()"
    return [sys.executable, "-c", program, *words]
