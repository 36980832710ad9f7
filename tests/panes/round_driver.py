"""A grouping with its overlay and a writer, driven round by round as a slot drives it."""

from __future__ import annotations

from typing import Any

from apache_beam import coders
from apache_beam.transforms.window import WindowedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.panes.choose import grouping_for
from sparkdrain.panes.grouping import GroupingTerms
from sparkdrain.panes.times import BEGIN
from sparkdrain.panes.triggered import needs_no_times
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.group_sender import GroupSender
from sparkdrain.shuffle.grouping import GroupWriter, KeyedWriter, WindowedWriter
from sparkdrain.shuffle.keys import key_codec
from timers_state import MemoryStore, Overlay, inspect

STATE = 7
SECOND = 1_000_000


class Blocks:
    """Stands in for an outbox: keeps the payloads."""

    def __init__(self):
        self.payloads = []
        self.sent_bytes = 0

    def producer(self, edge):
        return f"edge {edge}"

    def put(self, edge, partition, payload):
        self.payloads.append(payload)
        self.sent_bytes += len(payload)


class Firings:
    """A budget of so many timers."""

    def __init__(self, count: int) -> None:
        self.left = count

    def is_spent(self) -> bool:
        return self.left <= 0

    def spend(self, elements: int) -> None:
        self.left -= elements


class Rounds:
    """Runs rounds; ``round`` returns panes as ``(key, sorted values, window, time, pane)``."""

    def __init__(
        self,
        windowing,
        scratch,
        *,
        key_coder=None,
        value_coder=None,
        store=None,
        budget_bytes=16 << 20,
        memory_bytes=16 << 20,
        block_bytes=1 << 20,
        closes_always=False,
    ):
        self.windowing = windowing
        self.key_coder = key_coder or coders.StrUtf8Coder()
        self.value_coder = value_coder or coders.VarIntCoder()
        self.window_coder = windowing.windowfn.get_window_coder()
        self.scratch = scratch
        self.store = MemoryStore() if store is None else store
        self.budget_bytes, self.memory_bytes = budget_bytes, memory_bytes
        self.block_bytes = block_bytes
        self.closes_always = closes_always
        self.overlay = Overlay(self.store, budget_bytes)
        self.grouping = self.new_grouping()
        self.frontier = BEGIN
        self.now = 0

    def new_grouping(self) -> Any:
        coding = ElementCoding.of(self.value_coder, self.window_coder)
        terms = GroupingTerms(
            self.windowing,
            self.key_coder,
            coding,
            self.overlay,
            STATE,
            self.memory_bytes,
            lambda: self.scratch,
            closes_always=self.closes_always,
        )
        return grouping_for(terms)

    def blocks(self, elements):
        """Payloads for ``(key, value, seconds)``, as a producer writes them."""
        blocks = Blocks()
        encode, _ = key_codec(self.key_coder)
        route = lambda keys: [0] * len(keys)
        sender = GroupSender(0, encode, blocks, route, self.block_bytes)
        if needs_no_times(self.windowing):
            writer = WindowedWriter(GroupWriter(sender, self.value_coder), self.window_coder)
        else:
            writer = KeyedWriter(sender, self.value_coder, self.window_coder)
        for key, value, seconds in elements:
            writer.write((key, value), self.context(value, seconds))
        writer.flush()
        return blocks.payloads

    def context(self, value, seconds):
        time = Timestamp.of(seconds)
        windows = self.windowing.windowfn.assign(WindowFn.AssignContext(time, value))
        return WindowedValue(None, time, windows)

    def run(self, blocks, frontier=None, now=None, firings=1 << 30):
        """A round up to its end; ``frontier`` and ``now`` are micros, unchanged if not given."""
        if now is not None:
            self.now = now
        panes = []
        for block in blocks:
            self.grouping.take(memoryview(block))
        before = self.frontier
        if frontier is not None:
            self.frontier = frontier
        panes += seen(self.grouping.process(before, self.now, self.frontier))
        panes += seen(self.grouping.advance(self.frontier, self.now, Firings(firings)))
        return panes

    def commit(self):
        self.overlay.prepare()
        self.overlay.commit()
        self.grouping.commit()

    def rollback(self):
        self.overlay.rollback()
        self.grouping.rollback()

    def reopen(self):
        """All that was in memory is lost, after it was taken back to the last round and written."""
        self.overlay.rollback()
        self.overlay = Overlay(self.store, self.budget_bytes)
        self.grouping = self.new_grouping()

    def rows(self):
        """What is in the store, when everything is."""
        self.overlay.flush()
        return list(inspect.entries(self.store))

    def round(self, elements=(), frontier=None, now=None, firings=1 << 30):
        """A round that is kept."""
        panes = self.run(self.blocks(elements) if elements else [], frontier, now, firings)
        self.commit()
        return panes


def seen(batches):
    """What users see of batches."""
    panes = []
    for context, pairs in batches:
        (window,) = context.windows
        for key, values in pairs:
            panes.append(seen_pane(key, values, window, context.timestamp, context.pane_info))
    return panes


def seen_pane(key, values, window, time, info):
    """A pane as something that can be compared and sorted."""
    pane = (info.timing, info.index, info.nonspeculative_index, info.is_first, info.is_last)
    return (key, window.end.micros, window.start.micros, pane, sorted(values), time.micros)
