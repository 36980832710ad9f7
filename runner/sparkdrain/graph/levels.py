"""Which level each transform runs at: its depth, counted in barrier edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Node:
    """A transform, as far as levels are concerned.

    ``inputs`` maps each producing node to the barriers (0 or 1) between it and this one.
    """

    name: str
    inputs: Mapping[str, int]


def assign_levels(nodes: Sequence[Node]) -> dict[str, int]:
    """Give each of ``nodes`` (in topological order) a level, as late as its consumers allow.

    For every input, ``level(node) >= level(producer) + barriers``; no node is deeper than the
    deepest one must be. Late placement keeps data from being written only to be passed on:
    a chain that ends in a Flatten three levels down is run there. A node without consumers
    stays at its earliest level.
    """
    earliest: dict[str, int] = {}
    for node in nodes:
        earliest[node.name] = max(
            (earliest[producer] + barriers for producer, barriers in node.inputs.items()),
            default=0,
        )
    latest: dict[str, int] = {}
    for node in reversed(nodes):
        level = latest.setdefault(node.name, earliest[node.name])
        for producer, barriers in node.inputs.items():
            latest[producer] = min(latest.get(producer, level - barriers), level - barriers)
    return latest
