"""Owns side inputs of streaming jobs, and the elements that wait for them.

Never runs a DoFn. Start at ``gate``.
"""
