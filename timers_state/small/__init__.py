"""How a record holds each kind of state that has many items; each file is one kind.

Owns the value that a record keeps, its rows, and the cell that user code's cells work on.
Never finds a record, and never decides when one is written. Start with ``cell.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.cells import Bag, Map, Multimap, OrderedList, Set
from timers_state.small.bag import SmallBag
from timers_state.small.map import SmallMap
from timers_state.small.multimap import SmallMultimap
from timers_state.small.ordered_list import SmallOrderedList
from timers_state.small.set import SmallSet

if TYPE_CHECKING:
    from timers_state.cells.cell import Cell
    from timers_state.small.cell import SmallCell

SMALL_CELLS: Final[dict[type[Cell], type[SmallCell]]] = {
    Bag: SmallBag,
    Set: SmallSet,
    OrderedList: SmallOrderedList,
    Map: SmallMap,
    Multimap: SmallMultimap,
}
"""What a record has in place of a scope's cell. Kinds that are not named are single values."""
