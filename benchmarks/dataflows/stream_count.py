"""Sessions that their tenth element ends, in bytewax: those of `stream_state` end so already."""

from __future__ import annotations

from benchmarks.dataflows.stream_state import build

__all__ = ["build"]
