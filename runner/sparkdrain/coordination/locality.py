"""Where slots were last. Kept apart from who is to have them, and written by who has them only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.coordination.names import key_of, name_of, prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkdrain.coordination.metadata import CorruptRecord, MetadataStore

LOCALITY: Final = "sparkdrain-locality-v1"
"""The namespace of the last homes of slots, by job and number of the slot."""


@dataclass(frozen=True, order=True, slots=True)
class LastHome:
    """Where a slot was last.

    Attributes:
        location: where its files are; empty if that was not told.
        name: of who had it.
    """

    location: str
    name: str

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"name": self.name, "location": self.location}).encode()

    @classmethod
    def decode(cls, data: bytes) -> LastHome:
        """The inverse of ``encode``. A record without a location is read, and says nothing of it.

        Raises:
            ValueError: it is something else.
        """
        fields: Any = json.loads(data)
        if not isinstance(fields, dict) or "name" not in fields:
            message = "A record of a slot's last home has a name."
            raise ValueError(message)
        return cls(str(fields.get("location", "")), str(fields["name"]))


class Locality:
    """The last homes of the slots of one job, over all its runs. The last writer wins.

    Args:
        store: where they are told.
        job: names the job, and what its state belongs to.
    """

    def __init__(self, store: MetadataStore, job: str) -> None:
        self._store = store
        self._job = job

    def tell(self, slots: Iterable[int], home: LastHome) -> None:
        """Tell where slots are. Only who has them calls this.

        Raises:
            StoreDown: the store cannot be used now.
        """
        for slot in slots:
            self._store.put(LOCALITY, key_of(self._job, str(slot)), home.encode())

    def last(self) -> dict[int, LastHome]:
        """Where each slot was last; what cannot be read is left out.

        Raises:
            StoreDown: the store cannot be used now.
        """
        found = self._store.all(LOCALITY, _ignore, prefix=prefix_of(self._job))
        homes: dict[int, LastHome] = {}
        for key, record in found.items():
            try:
                homes[int(name_of(key))] = LastHome.decode(record.value)
            except ValueError:
                continue
        return homes


def _ignore(error: CorruptRecord) -> None:
    del error
