"""Owns: the metadata stores that there are, one module each.

Never: does more than `coordination/metadata.py` promises.
Start at `memory.py`, which is the contract in its simplest form.
"""
