"""Calls what was registered, come what may."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOGGER = logging.getLogger(__name__)


def call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    """Call one after the other; one that fails is logged and keeps none from being called."""
    for callback in callbacks:
        try:
            callback()
        except Exception:
            _LOGGER.exception("A callback of a drain request failed.")
