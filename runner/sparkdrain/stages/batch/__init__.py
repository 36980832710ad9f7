"""Owns batch jobs: one Spark job for each level, and what runs in a slot of the level.

Never keeps state when a slot ends. Start at ``execute`` (driver) and ``task`` (executor).
"""
