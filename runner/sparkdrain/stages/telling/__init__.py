"""Owns what slots tell the driver, and what the driver shows: failures, progress, reports.

Never decides what happens next. Start at ``failure``.
"""
