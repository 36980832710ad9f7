"""Owns streaming: a job as a sequence of rounds, each of them undone or committed as a whole.

``driver/loop`` (which levels run, and when) and ``slots/slot`` (what runs in one slot of a level)
are the two ends. ``messages`` has what they tell each other.
"""
