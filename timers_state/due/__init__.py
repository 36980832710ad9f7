"""The earliest timers over all keys of a state, but for small keys.

Owns the lists of keys by time, and the pass over the store's index by time. Never changes a timer.
Start with ``index.py``.
"""
