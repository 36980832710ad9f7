"""A relay that waits in a driver for the next job: it has been started, and has imported gRPC.

See ``spare_process``. The slot that takes it writes down what it is to do, and connects.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi.class_paths import FRESH_SECONDS
from sparkdrain.fnapi.process import Command, inherited
from sparkdrain.fnapi.shared_process import SharedProcess
from sparkdrain.fnapi.spare_process import SpareProcess, taken_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPARE_RELAY: Final = "SPARKDRAIN_SPARE_RELAY"
"""The environment variable with the folder in which the relay of a driver waits, if one does."""

_RELAY: Final = "sparkdrain.fnapi.relay"
_ORDER: Final = "order"
_WAITING: Final = "waiting"
# Beside class paths, whose names have no dot.
_USED: Final = ".relay"


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
    relay = SharedProcess.start(lambda folder: Command(relay_command(str(folder / _ORDER))))
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


def take(place: Path) -> SharedProcess | None:
    """Take the relay that waits; None if none does.

    Args:
        place: where it waits.
    """
    return taken_by(place / _WAITING)


def tell(relay: SharedProcess, words: Sequence[str], variables: dict[str, str]) -> None:
    """Tell a relay that was taken what to do, before anything connects to it.

    Args:
        words: the arguments that it would have been started with.
        variables: for the environment of the harness, beside that of this process.
    """
    order = {
        "words": list(words),
        "variables": {**inherited(), **variables},
        "folder": os.getcwd(),
    }
    (relay.folder / _ORDER).write_text(json.dumps(order), "utf-8")


def relay_command(*words: str) -> list[str]:
    """The command of a relay.

    Args:
        words: its arguments; one alone is the file with its order.
    """
    # Executors may have this package as an archive, which user code need not see.
    program = f"import sys; sys.path[:] = {sys.path!r}\nfrom {_RELAY} import main; main()"
    return [sys.executable, "-c", program, *words]
