"""Owns Python workers: the pool that a job gets, what is sent to them, what they keep.

Never runs a slot. Start at ``pool`` (driver) and ``preparation`` (executor).
"""
