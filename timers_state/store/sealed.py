"""What stands in for the store of an overlay whose round was prepared: every use is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, cast

from timers_state.errors import RoundPrepared

if TYPE_CHECKING:
    from timers_state.store.store import Store

_MESSAGE: Final = (
    "the round was prepared: commit it or roll it back before anything else is asked of the overlay"
)


def refuse() -> NoReturn:
    """Raises ``RoundPrepared``."""
    raise RoundPrepared(_MESSAGE)


class SealedStore:
    """A ``Store`` that refuses."""

    def __getattr__(self, name: str) -> NoReturn:
        refuse()


SEALED: Final = cast("Store", SealedStore())
