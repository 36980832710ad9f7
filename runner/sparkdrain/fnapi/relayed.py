"""The part of a slot in an SDK harness that the slots of an executor share, see ``relay``."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi.class_paths import CLASS_PATHS
from sparkdrain.fnapi.process import STOP_SECONDS, TOLD, Command, Life
from sparkdrain.fnapi.public_name import public_name
from sparkdrain.fnapi.shared_process import SharedPlace, SharedProcess, SlotInProcess
from sparkdrain.fnapi.spare_relay import relay_command, take, tell, use
from sparkdrain.loopback import UNIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.fnapi.services import SdkServices

_HARNESS: Final = "harness"
_SOCKET: Final = "fnapi"
# The relay puts its port there.
_ANY_PORT: Final = "127.0.0.1:0"


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


class RelayedHarness(Life):
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
        super().__init__(another())
        self._program = program
        self._place = place
        self._waiting = waiting
        self._services = services
        self._slot: SlotInProcess | None = None

    @override
    def start(self, worker_id: str) -> None:
        variables = {
            "HARNESS_ID": worker_id,
            "NAME": public_name(worker_id),
            "ENDPOINT": self.endpoint,
        }
        self._slot = self._place.enter(self._waiting_or_new, variables)
        self.told = self._slot.folder / TOLD
        harness_id = (self._slot.folder / _HARNESS).read_text("ascii")
        self._services.admit_also(harness_id, worker_id)

    def _waiting_or_new(self) -> SharedProcess:
        """The relay that waits, or a new one."""
        if self._waiting is not None and not self._program.needs_port:
            use(Path(os.environ[CLASS_PATHS]))
            taken = take(self._waiting)
            if taken is not None:
                try:
                    words, command = self._relay(taken.folder)
                    tell(taken, words, dict(command.variables))
                except BaseException:
                    taken.let_go()
                    raise
                return taken
        return SharedProcess.start(self._new_relay)

    def _new_relay(self, folder: Path) -> Command:
        words, command = self._relay(folder)
        return Command(relay_command(*words), command.variables, command.at_the_end)

    def _relay(self, folder: Path) -> tuple[list[str], Command]:
        """What a relay is told, and the command of a new harness."""
        harness_id, own = secrets.token_hex(16), self._program
        address = _ANY_PORT if own.needs_port else f"{UNIX}{folder / _SOCKET}"
        (folder / _HARNESS).write_text(harness_id, "ascii")
        command = own.command(harness_id, address, folder)
        patience = STOP_SECONDS if own.ends_itself else 0.0
        return [harness_id, address, str(patience), *command.words], command

    @override
    def connected(self) -> None:
        if self._slot is not None:
            self._slot.connected()

    @override
    def how_it_ended(self) -> str:
        return "" if self._slot is None else self._slot.how_it_ended(self._program.name)

    @override
    def last_words(self) -> str:
        return "" if self._slot is None else self._slot.last_words()

    @override
    def stop(self, *, at_once: bool = False) -> None:
        if self._slot is not None:
            # Until it has answered all bundles of this slot. The next part begins without them.
            self._slot.finish(self.torn_down, 0.0 if at_once else STOP_SECONDS)
            self._slot.let_go()
        self._services.leave(self.endpoint)
