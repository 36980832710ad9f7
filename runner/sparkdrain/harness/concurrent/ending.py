"""Ends the tasks of a step that is given up, and names code that goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOGGER = logging.getLogger(__name__)

LAST_SECONDS: Final = 2.0
"""Seconds for which code may go on that was cancelled."""


async def cancel_all(tasks: Iterable[asyncio.Task[Any]], described: Callable[[], str]) -> None:
    """Cancel tasks, and wait for them for 2 s; log ``described()`` if one goes on."""
    workers = set(tasks)
    for worker in workers:
        worker.cancel()
    if workers:
        _, left = await asyncio.wait(workers, timeout=LAST_SECONDS)
        if left:
            _LOGGER.warning(
                "%s does not end although it was cancelled (%d in all)", described(), len(left)
            )
