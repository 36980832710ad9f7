"""Owns side inputs: publishing them once per executor, and reading them from there.

Never keeps a side input in memory. Start at ``file`` (what is published).
"""
