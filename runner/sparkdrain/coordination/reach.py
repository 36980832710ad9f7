"""From how far away a metadata store can be opened."""

from __future__ import annotations

import enum


class StoreReach(enum.IntEnum):
    """Who can open a store; a wider reach is greater."""

    PROCESS = 1
    MACHINE = 2
    NETWORK = 3
