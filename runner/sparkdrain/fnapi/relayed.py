"""The part of a slot in an SDK harness that the slots of an executor share, see ``relay``."""

from __future__ import annotations

import secrets
import sys
import threading
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from sparkdrain.fnapi.process import STOP_SECONDS, Command, Life
from sparkdrain.fnapi.public_name import public_name
from sparkdrain.fnapi.shared_process import SharedPlace, SharedProcess, SlotInProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.fnapi.services import SdkServices

_HARNESS: Final = "harness"
_SOCKET: Final = "fnapi"
_RELAY: Final = "sparkdrain.fnapi.relay"


class RelayedHarness(Life):
    """A harness that has bundles of several slots at a time.

    Its instructions come by a relay. For elements and state it calls the services of each slot, at
    an address that no other part in a harness has: its connections there end with this part.

    Args:
        name: what messages call it.
        command: what starts the harness, given its id, the address of its services, and a folder.
        place: where the slots of the executor find the harness.
    """

    is_shared = True

    def __init__(
        self,
        name: str,
        command: Callable[[str, str, Path], Command],
        place: SharedPlace,
        services: SdkServices,
    ) -> None:
        self._name = name
        self._command = command
        self._place = place
        self._services = services
        self._endpoint = services.another_socket()
        self._slot: SlotInProcess | None = None

    @property
    @override
    def endpoint(self) -> str:
        return self._endpoint

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
        harness_id, address = secrets.token_hex(16), f"unix:{folder / _SOCKET}"
        (folder / _HARNESS).write_text(harness_id, "ascii")
        words, variables = self._command(harness_id, address, folder)
        # Executors may have this package as an archive, which user code need not see.
        program = f"import sys; sys.path[:] = {sys.path!r}\nfrom {_RELAY} import main; main()"
        return [sys.executable, "-c", program, harness_id, address, *words], variables

    @override
    def connected(self) -> None:
        if self._slot is not None:
            self._slot.connected()

    @override
    def how_it_ended(self) -> str:
        return "" if self._slot is None else self._slot.how_it_ended(self._name)

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
