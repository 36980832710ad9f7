"""Rounds that are undone by chance, and yet come to their end with certainty."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from sparkdrain.errors import TruncatedInput

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 5
ATTEMPTS: Final = _MOST + 1
"""At a round, that a job needs which is disturbed like this."""

SEEDS: Final = st.integers(0, 2**32)
"""Of the dice. How often they are thrown depends on time, so hypothesis does not throw them."""


def undoing(seed: int, share: float) -> Callable[[Any], None]:
    """Lets a share of all slots' attempts fail, to be given to ``InMemoryRounds`` as ``fail``.

    No round fails more often than a job bears it.

    Args:
        seed: of the dice.
        share: of the attempts, from 0 to 1.
    """
    dice, undone = Random(seed), Counter[int]()

    def fail(header: Any) -> None:
        if dice.random() < share and undone[header.number] < _MOST:
            undone[header.number] += 1
            message = "as the test wants it"
            raise TruncatedInput(message)

    return fail
