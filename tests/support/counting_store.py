"""A store that knows what was asked of it."""

from __future__ import annotations

from timers_state import MemoryStore


class CountingStore(MemoryStore):
    """Counts.

    Attributes:
        calls: how often it was asked for something.
        looked_up: rows that were asked for by their keys.
        walked: rows that iterators gave.
    """

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        """Counts from zero again."""
        self.calls = self.looked_up = self.walked = 0

    @property
    def rows(self):
        """All rows."""
        return self.looked_up + self.walked

    def get(self, row):
        self.calls += 1
        self.looked_up += 1
        return super().get(row)

    def multi_get(self, rows):
        self.calls += 1
        self.looked_up += len(rows)
        return super().multi_get(rows)

    def iterate(self, lower, upper):
        self.calls += 1
        return self._walk(super().iterate(lower, upper))

    def iterate_rows(self, lower, upper):
        self.calls += 1
        return self._walk(super().iterate_rows(lower, upper))

    def _walk(self, rows):
        for row in rows:
            self.walked += 1
            yield row
