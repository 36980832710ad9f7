"""The kinds of state that a user can have per key and window; each file is one kind.

Owns what a kind keeps in memory, how it writes that out, and how the two are read as one.
Never opens a store, and never formats a key itself.
Start with ``cell.py`` for what all kinds share, then ``value.py``.
"""
