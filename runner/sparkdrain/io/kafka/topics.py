"""Which topics are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sparkdrain.io.kafka.errors import KafkaRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def matching(
    known: Iterable[str], topics: Sequence[str], pattern: str | None, servers: str
) -> list[str]:
    """The topics that are wanted and exist, sorted.

    Args:
        known: all that there are.
        topics: wanted by name.
        pattern: a regular expression that the whole name matches; topics of Kafka's own, which
            begin with two underscores, never do.
        servers: for the error.

    Raises:
        KafkaRefused: one of ``topics`` is not there.
    """
    there = set(known)
    missing = sorted(set(topics) - there)
    if missing:
        msg = f"Kafka at {servers} has no topic {', '.join(map(repr, missing))}, or hides it"
        raise KafkaRefused(msg)
    if pattern is None:
        return sorted(set(topics))
    wanted = re.compile(pattern)
    return sorted(name for name in there if not name.startswith("__") and wanted.fullmatch(name))
