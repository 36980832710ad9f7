"""How SDK harnesses of tests live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from sparkdrain.fnapi.process import Life

if TYPE_CHECKING:
    from collections.abc import Callable


class Ending(Life):
    """A harness that ends as a test says.

    Args:
        how: see ``Life.how_it_ended``.
        last_words: see ``Life.last_words``.
    """

    def __init__(self, how: Callable[[], str], last_words: str = "") -> None:
        super().__init__()
        self._how = how
        self._last_words = last_words

    @override
    def how_it_ended(self) -> str:
        return self._how()

    @override
    def last_words(self) -> str:
        return self._last_words
