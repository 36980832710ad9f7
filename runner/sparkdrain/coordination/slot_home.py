"""What can have slots."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class SlotHome(Protocol):
    """What can have slots, such as an executor. Homes are hashable and have an order."""

    @property
    def location(self) -> str:
        """Where it is; homes of one location can use each other's files."""

    def __lt__(self, other: Any, /) -> bool:
        """The order in which homes are chosen that are equally good."""


H = TypeVar("H", bound=SlotHome)
