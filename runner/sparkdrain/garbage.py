"""How often a process that has user code's elements looks for garbage."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """Look seldom, and never at what is there by now: call this when all is imported.

    What is imported is never garbage, and tables of a million lists are none either: at Python's
    thresholds a grouping spends a third of its time looking at them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
