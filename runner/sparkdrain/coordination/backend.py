"""The contract of a kind of metadata store, and where its stores are."""

from __future__ import annotations

import enum
import importlib
from typing import TYPE_CHECKING, Protocol, cast

from sparkdrain.coordination import backends
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Sequence

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
