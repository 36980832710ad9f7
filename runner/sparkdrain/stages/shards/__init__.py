"""Owns what slots of batch and of streaming jobs share: coders, writers, sources of stages.

Never keeps anything between two rounds. Start at ``slot``.
"""
