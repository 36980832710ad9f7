"""How a record holds each kind of state that has many items; each kind has a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timers_state.cells.bag import Bag
from timers_state.cells.map import Map
from timers_state.cells.multimap import Multimap
from timers_state.cells.ordered_list import OrderedList
from timers_state.cells.set import Set
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
