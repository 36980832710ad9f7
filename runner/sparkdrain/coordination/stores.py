"""The kinds of metadata stores, and the stores that one process has."""

from __future__ import annotations

import enum
import importlib
import threading
from typing import TYPE_CHECKING, Final, Protocol, cast

from sparkdrain.coordination import backends
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkdrain.coordination.address import StoreAddress
    from sparkdrain.coordination.metadata import MetadataStore


class StoreReach(enum.IntEnum):
    """Who can open a store; a wider reach is greater."""

    PROCESS = 1
    MACHINE = 2
    NETWORK = 3


class Backend(Protocol):
    """One kind of metadata store, as one process uses it. Thread-safe.

    A place is the text behind the kind in an address, in its one written form. All handles that
    one ``Backend`` opens on one place share their records.
    """

    def place(self, text: str) -> str:
        """Read what stands behind the kind in an address; nothing is opened.

        Raises:
            ValueError: the text names no place; says what it has to be.
        """

    def reach(self, place: str) -> StoreReach:
        """Who can open the store there; all machines by default, as with a service."""
        return StoreReach.NETWORK

    def exists(self, place: str) -> bool:
        """Whether a store is there; True by default, for kinds in which only ``open`` can tell."""
        return True

    def prepare(self, place: str, *, group: bool) -> Sequence[str]:
        """Make what a job's store needs before it is opened; by default it needs nothing.

        Args:
            place: what follows the kind in the store's address.
            group: whether the user's group may use the store.

        Returns:
            What is wrong with the place, for people; a text each.
        """
        return ()

    def open(self, place: str) -> MetadataStore:
        """A handle on the store there; close it.

        Raises:
            BadSetup: there can be no store there, or another process has it; says which.
        """


def load(kind: str) -> Backend:
    """The backend of a kind that ``BACKENDS`` has.

    Raises:
        BadSetup: a package that the kind needs is not installed; names it.
    """
    try:
        module = importlib.import_module(f"{backends.__name__}.{kind}")
    except ImportError as error:
        message = (
            f"--metadata_store={kind}: needs the package {error.name!r}, which is missing. Install "
            f"it with: pip install 'spark-drain-runner[{kind}]'"
        )
        raise BadSetup(message) from error
    return cast("Backend", module.Backend())


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
