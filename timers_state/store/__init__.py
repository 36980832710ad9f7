"""Ordered rows of bytes that change in numbered batches: in RocksDB, or in memory.

Owns batches, files, formats, undo points and snapshots. Never knows what a row means, but where
``gather`` goes by the layout of ``keys``. Start with ``store.py``.
"""
