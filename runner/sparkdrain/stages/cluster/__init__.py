"""Owns the Spark session of the driver: checks of its setting, its JVM, its executors.

Never knows a plan. Start at ``context``.
"""
