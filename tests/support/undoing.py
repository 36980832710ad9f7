"""Rounds that are undone by chance, and yet come to their end with certainty."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.errors import TruncatedInput

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 5
ATTEMPTS: Final = _MOST + 1
"""At a round, that a job needs which is disturbed like this."""


def undoing(random: Any, share: float) -> Callable[[Any], None]:
    """Lets a share of all slots' attempts fail, to be given to ``InMemoryRounds`` as ``fail``.

    No round fails more often than a job bears it: dice that are drawn by hypothesis may well show
    the same number for ever.

    Args:
        random: the dice.
        share: of the attempts, from 0 to 1.
    """
    undone: Counter[int] = Counter()

    def fail(header: Any) -> None:
        if random.random() < share and undone[header.number] < _MOST:
            undone[header.number] += 1
            message = "as the test wants it"
            raise TruncatedInput(message)

    return fail
