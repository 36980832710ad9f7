"""The stores that one process has, whatever their kinds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.backend import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.coordination.address import StoreAddress
    from sparkdrain.coordination.backend import Backend, StoreReach
    from sparkdrain.coordination.metadata import MetadataStore


class Stores:
    """The stores that one process has; all handles on one address share their records.

    What is in memory stays for as long as the process: a record may be written before the job that
    is to read it opens the store. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backends: dict[str, Backend] = {}

    def reach(self, address: StoreAddress) -> StoreReach:
        """Who can open the store."""
        return self._backend(address).reach(address.place)

    def exists(self, address: StoreAddress) -> bool:
        """Whether a store is there; True if only ``open`` can tell."""
        return self._backend(address).exists(address.place)

    def prepare(self, address: StoreAddress, *, group: bool) -> Sequence[str]:
        """Makes what a job's store needs; returns what is wrong with its place, a text each."""
        return self._backend(address).prepare(address.place, group=group)

    def open(self, address: StoreAddress) -> MetadataStore:
        """A handle on the store there; close it. Raises ``BadSetup`` if there can be none."""
        return self._backend(address).open(address.place)

    def _backend(self, address: StoreAddress) -> Backend:
        with self._lock:
            if address.kind not in self._backends:
                self._backends[address.kind] = load(address.kind)
            return self._backends[address.kind]


STORES: Final = Stores()
"""The kinds of stores that this process knows."""
