"""The backends that the contract is tested with: all that there are."""

from __future__ import annotations

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.backends import BACKENDS
from sparkdrain.coordination.stores import Stores

__all__ = ["BACKENDS", "Backend"]


class Backend:
    """One store of one kind, and this process's way to it."""

    def __init__(self, kind: str, directory) -> None:
        self.address = parse(f"{kind}:{directory}/store")
        self.stores = Stores()

    def open(self):
        return self.stores.open(self.address)

    def restart(self) -> None:
        """As if the process had ended, without a word to the store, and another had begun."""
        if self.stores.is_shared(self.address):
            self.stores = Stores()
