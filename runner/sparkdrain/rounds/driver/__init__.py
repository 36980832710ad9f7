"""Owns the driver's side of a streaming job: rounds, checkpoints, and what users are told.

Never touches an element. Start at ``loop``, then ``schedule``.
"""
