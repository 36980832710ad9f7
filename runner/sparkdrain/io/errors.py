"""What any partitioned log can say to who reads it; each connector has errors of its own below."""

from __future__ import annotations

from sparkdrain.errors import SparkDrainError


class ServiceRefused(SparkDrainError):
    """The service answered, and said no; it will say so another time."""


class RecordsLost(SparkDrainError):
    """Records that are to be read next were deleted; names the partition and the positions."""
