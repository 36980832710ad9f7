"""What a drain is to empty."""

from __future__ import annotations

import enum


class DrainMode(enum.Enum):
    """What a drain empties; the name is what is written down."""

    DEFAULT = "DEFAULT"
    """Everything the runner keeps: shuffles, windows, timers, residuals. User state stays."""
