"""Keyed user state and timers: bytes in, bytes out, in memory within a budget, else in RocksDB.

Owns the layout of every stored byte. Never knows what the bytes mean, and imports neither Beam nor
Spark. Start with ``overlay/overlay.py``; ``docs/state.md`` has layouts, guarantees and costs.

What an engine needs, and all that stays stable::

    store = RoundStore(directory)               # opened when needed, deleted by close()
    store = open_store(directory)               # state that lasts; open_read_only() to look inside
    overlay = Overlay(store, budget_bytes)      # memory first; close() closes the store
    group = key_group(encoded_key)              # stable hash, range(1024)

    scope = overlay.scope(state_id, key)        # one user key in one state
    scope.value(tag, window)                    # get() set(b) clear()
    scope.combining(tag, window)                # the same, for an accumulator
    scope.bag(tag, window)                      # append(b) extend(bs) read() segments()
    scope.set(tag, window)                      # add(b) remove(b) contains(b) read()
    scope.map(tag, window)                      # get(k) put(k, b) remove(k) keys() items()
    scope.multimap(tag, window)                 # put(k, b) get(k) segments(k) remove(k) keys()
    scope.ordered_list(tag, window)             # append(i, b) read(lo, hi) clear_range(lo, hi)
    timers = scope.timers(Domain.EVENT)         # set(time, family, tag, window, payload)
                                                # clear(family, tag, window) pop_due(up_to)
                                                # due(up_to) time_of(...) next_time()
    scope.forget_window(window)                 # the window's life ended
    scope.forget()                              # the key's life ended: free if it stayed in memory
    overlay.flush()                             # all into the store, as one batch
    inspect.entries(store)                      # every row, taken apart

    overlay = Overlay(RoundStore(directory), budget_bytes)   # streams; then also:
    overlay.first_time(state_id, domain)        # of the earliest timer of any key
    overlay.next_due(state_id, domain, up_to)   # the key that has it, if it is due
    overlay.prefetch(state_id, keys)            # these will be used: reads them in one pass
    overlay.prepare()                           # ends a round, which then is either
    overlay.commit()                            # kept, or
    overlay.rollback()                          # taken back, which needs no prepare()
    overlay.snapshot(elsewhere)                 # between rounds: what was committed, as a store
    RoundStore.take_up(elsewhere)               # goes on there

Every cell has ``clear()``. Times, sort keys and state ids are numbers, the rest is bytes. One
overlay belongs to one thread; nothing here survives a fork.
"""

from __future__ import annotations

from timers_state import inspect
from timers_state.errors import StateError
from timers_state.keys import KEY_GROUPS, Domain, key_group
from timers_state.large.scope import KeyScope
from timers_state.large.timers import Timer, Timers
from timers_state.overlay.overlay import Overlay
from timers_state.small.record import Layout
from timers_state.store.memory import MemoryStore
from timers_state.store.rocks import RocksMemory, RocksStore, open_read_only, open_store
from timers_state.store.round_store import RoundStore
from timers_state.store.store import Store

__all__ = [
    "KEY_GROUPS",
    "Domain",
    "KeyScope",
    "Layout",
    "MemoryStore",
    "Overlay",
    "RocksMemory",
    "RocksStore",
    "RoundStore",
    "StateError",
    "Store",
    "Timer",
    "Timers",
    "inspect",
    "key_group",
    "open_read_only",
    "open_store",
]
