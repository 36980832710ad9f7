"""Owns side inputs: what is published of them, and reading it.

Never keeps a side input in memory beyond a budget. Start at ``file`` (in batch, a file that every
executor gets once) and ``windows`` (in streaming, what each slot has in its state).
"""
