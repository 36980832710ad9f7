"""A metadata store that answers within a time, or is said not to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from sparkdrain.coordination.metadata import (
    ANY,
    Keys,
    MetadataStore,
    OnCorrupt,
    StoreDown,
    fail,
)
from sparkdrain.in_time import InTime, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.coordination.metadata import Versioned

T = TypeVar("T")
ANSWER_SECONDS: Final = 30.0
"""Seconds that a caller waits for one answer of a store; longer than for the lock of its files."""


class TimedStore(MetadataStore):
    """See ``MetadataStore``. Every call ends in time, however long a disk or a service hangs.

    A call that was given up raises ``StoreDown``, and may still take effect later.

    Args:
        store: keeps the records.
        place: where the store is, for messages.
        seconds: how long a call may take.
    """

    def __init__(self, store: MetadataStore, place: str, seconds: float = ANSWER_SECONDS) -> None:
        self._store = store
        self._place = place
        self._calls = InTime(seconds, "metadata-store")

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        return self._in_time(lambda: self._store.get(namespace, key))

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        return self._in_time(lambda: self._store.put(namespace, key, value, version))

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        return self._in_time(lambda: self._store.remove(namespace, key, version))

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        return self._in_time(lambda: self._store.all(namespace, on_corrupt, without, prefix))

    def close(self) -> None:
        """See ``MetadataStore``; a store that hangs is left to the end of the process."""
        try:
            self._in_time(self._store.close)
        except StoreDown:
            return

    def _in_time(self, call: Callable[[], T]) -> T:
        try:
            return self._calls.call(f"The metadata store in {self._place}", call)
        except NoAnswer as error:
            message = f"{error}. What was asked may still be done later."
            raise StoreDown(message) from None
