"""Owns: the metadata stores that there are, one module each.

Never: does more than `coordination/metadata.py` promises.
Start at `memory.py`, which is the contract in its simplest form.

A new store is a module with a class ``Backend`` (see `coordination/stores.py`), and a line here.
"""

from __future__ import annotations

from typing import Final

BACKENDS: Final = {
    "memory": "memory:, memory:NAME",
    "file": "file:/absolute/path",
    "rocksdb": "rocksdb:/absolute/path",
    "zookeeper": "zookeeper:HOST:PORT/path",
    "kafka": "kafka:HOST:PORT/topic",
    "azure": "azure:CONTAINER",
}
"""What the addresses of each kind of store look like; a kind is the name of its module."""
