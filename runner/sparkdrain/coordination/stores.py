"""Opens metadata stores, and shares those that a process can have but once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.backends.memory import MemoryStore, Records
from sparkdrain.errors import BadSetup
from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from sparkdrain.coordination.address import Address
    from sparkdrain.coordination.backends.rocks import RocksDatabase, RocksStore
    from sparkdrain.coordination.metadata import MetadataStore


class Stores:
    """The stores that one process has; all handles on one address share their records.

    What is in memory stays for as long as the process: a record may be written before the job that
    is to read it opens the store. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: dict[str, Records] = {}
        self._rocks: dict[str, tuple[RocksDatabase, int]] = {}

    def open(self, address: Address) -> MetadataStore:
        """A handle on the store at ``address``; close it.

        Raises:
            BadSetup: there can be no store there, or another process has it; says which.
        """
        match address.kind:
            case "memory":
                with self._lock:
                    return MemoryStore(self._memory.setdefault(address.place, Records()))
            case "file":
                return _file_store(address)
            case "rocksdb":
                return self._open_rocks(address)

    def _open_rocks(self, address: Address) -> RocksStore:
        from sparkdrain.coordination.backends import rocks  # noqa: PLC0415 (native, seldom used)

        place = str(address.path.resolve())
        with self._lock:
            database, handles = self._rocks.get(place) or (rocks.RocksDatabase(address.path), 0)
            self._rocks[place] = (database, handles + 1)
        return rocks.RocksStore(database, lambda: self._release(place))

    def _release(self, place: str) -> None:
        with self._lock:
            database, handles = self._rocks.pop(place)
            if handles > 1:
                self._rocks[place] = (database, handles - 1)
            else:
                database.close()


STORES: Final = Stores()
"""Those of this process."""


def _file_store(address: Address) -> MetadataStore:
    from sparkdrain.coordination.backends.file import FileStore  # noqa: PLC0415 (POSIX only)
    from sparkdrain.coordination.metadata import StoreDown  # noqa: PLC0415
    from sparkdrain.coordination.timed_store import ANSWER_SECONDS, TimedStore  # noqa: PLC0415

    place = str(address.path)
    opening = InTime(ANSWER_SECONDS, "metadata-store")
    try:
        store = opening.call(f"The metadata store in {place}", lambda: FileStore(address.path))
        return TimedStore(store, place)
    except (StoreDown, NoAnswer) as error:
        raise BadSetup(str(error)) from error
