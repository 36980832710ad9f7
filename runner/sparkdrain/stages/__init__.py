"""Owns running a plan on Spark: the session, workers, what a slot's task does, batch jobs.

Never decides what a stage computes. ``daemon`` and ``nursery`` are programs: Spark, and users'
configurations, name the first. Start at ``batch.execute`` (driver) and ``batch.task`` (executor).
"""
