"""Owns: records with versions that processes share across runs, behind one contract.

Never: knows what the records mean.
Start at `metadata.py`, the contract; `address.py` chooses a backend.
"""
