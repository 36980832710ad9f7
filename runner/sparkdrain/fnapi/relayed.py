"""The part of a slot in an SDK harness that the slots of an executor share, see ``relay``."""

from __future__ import annotations

import secrets
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi.process import STOP_SECONDS, TOLD, Command, Life
from sparkdrain.fnapi.public_name import public_name
from sparkdrain.fnapi.shared_process import SharedPlace, SharedProcess, SlotInProcess
from sparkdrain.loopback import UNIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.fnapi.services import SdkServices

_HARNESS: Final = "harness"
_SOCKET: Final = "fnapi"
_RELAY: Final = "sparkdrain.fnapi.relay"
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
    """

    is_shared = True

    def __init__(
        self,
        program: HarnessProgram,
        place: SharedPlace,
        services: SdkServices,
    ) -> None:
        self._program = program
        self._place = place
        self._services = services
        another = services.another_port if program.needs_port else services.another_socket
        self._endpoint = another()
        self._slot: SlotInProcess | None = None

    @property
    @override
    def endpoint(self) -> str:
        return self._endpoint

    @property
    @override
    def told(self) -> Path | None:
        return None if self._slot is None else self._slot.folder / TOLD

    @override
    def start(self, worker_id: str) -> None:
        variables = {
            "HARNESS_ID": worker_id,
            "NAME": public_name(worker_id),
            "ENDPOINT": self._endpoint,
        }
        self._slot = self._place.enter(lambda: SharedProcess.start(self._relay), variables)
        harness_id = (self._slot.folder / _HARNESS).read_text("ascii")
        self._services.admit_also(harness_id, worker_id)

    def _relay(self, folder: Path) -> Command:
        """What starts a relay with a new harness."""
        harness_id, own = secrets.token_hex(16), self._program
        address = _ANY_PORT if own.needs_port else f"{UNIX}{folder / _SOCKET}"
        (folder / _HARNESS).write_text(harness_id, "ascii")
        command = own.command(harness_id, address, folder)
        patience = STOP_SECONDS if own.ends_itself else 0.0
        # Executors may have this package as an archive, which user code need not see.
        program = f"import sys; sys.path[:] = {sys.path!r}\nfrom {_RELAY} import main; main()"
        words = [sys.executable, "-c", program, harness_id, address, str(patience)]
        return Command([*words, *command.words], command.variables, command.at_the_end)

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
            self._slot.finish(threading.Event(), 0.0 if at_once else STOP_SECONDS)
            self._slot.let_go()
        self._services.leave(self._endpoint)
