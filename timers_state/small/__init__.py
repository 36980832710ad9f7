"""Small keys: one object for each window, with tuples that are replaced and never changed.

Owns records, their rows, their times, and how they hold each kind of state. Never decides when a
record is written or let go of. Start with ``record.py``.
"""
