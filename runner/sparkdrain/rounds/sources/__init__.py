"""Owns splittable DoFns as sources: restrictions wait, go on, and are truncated by a drain.

Never decides how much is read; that is the round's budget. Start at ``restrictions``.
"""
