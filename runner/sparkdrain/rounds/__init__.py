"""Owns streaming: a job as a sequence of rounds, each of them undone or committed as a whole.

``loop`` (the driver: which levels run, when) and ``slot`` (what runs in one slot of a level) are
the two ends; ``messages`` is what they tell each other.
"""
