"""Numbers in messages, as English has them."""

from __future__ import annotations

from typing import Final

_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "timer"), counted(2000, "parked element")
    ('1 timer', '2,000 parked elements')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ordinal(number: int) -> str:
    """The place in a row, in digits.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22, 112)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '112th']
    """
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else _ENDINGS.get(number % 10, 'th')}"
