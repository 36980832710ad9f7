"""How the DoFns of a slot are torn down."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOGGER = logging.getLogger(__name__)


def tear_down(teardowns: Iterable[Callable[[], object]]) -> Exception | None:
    """Call all of them, whichever of them raise: none is kept from its end by another.

    Returns:
        The first error. All are logged.
    """
    first = None
    for teardown in teardowns:
        try:
            teardown()
        except Exception as error:
            _LOGGER.exception("teardown failed")
            first = error if first is None else first
    return first
