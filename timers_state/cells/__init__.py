"""The kinds of state that a user can have per key and window; each file is one kind.

Owns what a kind keeps in memory, how it writes that out, and how the two are read as one.
Never opens a store, and never formats a key itself.
Start with ``cell.py`` for what all kinds share, then ``value.py``.
"""

from __future__ import annotations

from timers_state.cells.bag import Bag
from timers_state.cells.combining import Combining
from timers_state.cells.map import Map
from timers_state.cells.multimap import Multimap
from timers_state.cells.ordered_list import OrderedList
from timers_state.cells.set import Set
from timers_state.cells.value import Value

__all__ = ["Bag", "Combining", "Map", "Multimap", "OrderedList", "Set", "Value"]
