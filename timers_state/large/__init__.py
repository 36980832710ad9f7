"""Large keys: rows in the store, and what of them differs in memory.

Owns the cells and timers of one key. Never finds a key, and never decides when one is written or
let go of. Start with ``scope.py``.
"""
