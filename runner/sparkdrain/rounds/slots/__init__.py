"""Owns a slot's side of a streaming job, which lives in a host process and runs rounds.

Never decides which rounds there are; that is ``driver``. Start at ``slot``.
"""
