"""How a store of an older format becomes one of this release's.

A migration is one step, from a format to the next. It changes rows by numbered batches, as the
overlay that owns the store does. All the steps that a store needs happen behind one undo point. So
the store is either as it was or wholly new, also after a failure, and after the death of its
process at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from timers_state.errors import FormatTooOld
from timers_state.store.formats import FORMAT
from timers_state.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

Migration = Callable[[Store], None]

MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType({})
"""The migrations by the format that each starts from. None yet: format 1 was the first."""


def steps_from(
    number: int, migrations: Mapping[int, Migration], directory: Path
) -> tuple[Migration, ...]:
    """What leads from format ``number`` to this release's, in order.

    Raises:
        FormatTooOld: a step is missing; names ``directory``.
    """
    formats = range(number, FORMAT)
    missing = [each for each in formats if each not in migrations]
    if missing:
        message = (
            f"{directory} has format {number}, and nothing leads from format {missing[0]} to "
            f"{FORMAT}, which this release has. Open it with the release that wrote it."
        )
        raise FormatTooOld(message)
    return tuple(migrations[each] for each in formats)
