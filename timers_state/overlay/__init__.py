"""Which keys are in memory, when they are written, and what is kept or taken back as a whole.

Owns the budget, the round, and where each key is. Never knows what a row looks like. Start with
``overlay.py``.
"""
