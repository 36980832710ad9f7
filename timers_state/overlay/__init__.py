"""Which keys are in memory, when they are written, and what is kept or taken back as a whole.

Owns the budget, the round, where each key is, and the earliest timers over all keys. Never formats
a row itself. Start with ``overlay.py``.
"""
