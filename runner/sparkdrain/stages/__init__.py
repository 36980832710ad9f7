"""Owns running a plan on Spark: the session, one Spark job per level, what a slot's task does.

Never decides what a stage computes. Start at ``execute`` (driver) and ``task`` (executor).
"""
