"""How slots at work tell the driver how far they are: best effort, and never in a task's way.

As long as a task runs, it sends messages of ``[level u32][slot u32][elements u64]``.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sparkdrain.lines.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.lines.line import Endpoint, Line
    from sparkdrain.lines.server import Bind

_COUNT: Final = struct.Struct(">IIQ")
_TICK_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 2.0


def progress_server(bind: Bind, tick: Callable[[int, int, int], None]) -> Server:
    """The driver's side, for all slots of a job. What slots send after it is closed is not taken.

    Args:
        bind: where to listen.
        tick: takes level, slot and the number of elements that the slot has handled.

    Raises:
        OSError: nothing can listen there.
    """

    def serve(line: Line) -> None:
        while True:
            count = _COUNT.unpack(line.recv_bytes(_COUNT.size))
            if server.is_closed:
                return
            tick(*count)

    server = Server(bind, "progress", serve)
    return server


@contextmanager
def ticking(
    driver: Endpoint | None,
    level: int,
    slot: int,
    handled: Callable[[], int],
    seconds: float = _TICK_SECONDS,
) -> Iterator[None]:
    """While entered, tell the driver every ``seconds`` what ``handled`` says.

    Does nothing without an endpoint, and gives up for good at the first trouble.
    """
    if driver is None:
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        # Whatever happens here, the task must not notice.
        with contextlib.suppress(Exception):
            if ended.wait(seconds):
                return
            with driver.dial(_CONNECT_SECONDS) as line:
                while True:
                    line.send_bytes(_COUNT.pack(level, slot, handled()))
                    if ended.wait(seconds):
                        return

    threading.Thread(target=tick, name="sparkdrain-progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
