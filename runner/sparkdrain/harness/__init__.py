"""Owns running a stage's transforms: bundles in, elements out.

Never moves elements between slots; that is ``shuffle``. Start at ``bundle``.
"""
