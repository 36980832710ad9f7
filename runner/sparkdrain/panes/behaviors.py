"""What happens at the two ends of a window if nothing came since its last pane."""

from __future__ import annotations

from enum import Enum


class Closing(Enum):
    """Whether a window that ends has a last pane even if nothing came since the one before."""

    IF_NOT_EMPTY = 1
    ALWAYS = 2


class OnTime(Enum):
    """Whether a window's pane on time comes even if nothing came since the one before."""

    ALWAYS = 1
    IF_NOT_EMPTY = 2
