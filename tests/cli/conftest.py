from __future__ import annotations

from tests.support.store_on_disk import address, store

__all__ = ["address", "store"]
