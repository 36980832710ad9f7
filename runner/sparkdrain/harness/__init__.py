"""Owns running a stage's transforms: bundles in, elements out.

Never moves elements between slots; that is ``shuffle``. Start at ``harness``, which is what slots
know, then ``bundle``, which does it in the slot's process.
"""
