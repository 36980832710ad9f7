"""The versions of Python, Beam and Spark that are tried together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pair:
    """A Python, and a Beam and a Spark of the same environment; each with its newest patch.

    Attributes:
        lowest: whether every other dependency has the lowest version that the package allows.
    """

    python: str
    beam: str
    spark: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """The name of its environment, and what the command line calls it."""
        return f"py{self.python}-beam{self.beam}-spark{self.spark}"


OLDEST: Final = Pair("3.10", "2.74", "3.5", lowest=True)

# Every version that is supported is in some pair. The oldest of one meets the newest of another.
PAIRS: Final = (
    OLDEST,
    Pair("3.11", "2.77", "3.5"),
    Pair("3.11", "2.75", "4.0"),
    Pair("3.12", "2.76", "4.1"),
    Pair("3.10", "2.77", "4.2"),
    Pair("3.11", "2.74", "4.3"),
    Pair("3.11", "2.77", "4.3"),
    Pair("3.12", "2.77", "4.3"),
    Pair("3.13", "2.77", "4.3"),
)
