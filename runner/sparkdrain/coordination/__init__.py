"""Owns: small records that processes share across runs, behind one contract with many backends.

Never: knows what the records mean, nor holds anything large.
Start at `metadata.py`, the contract; `address.py` chooses a backend.
"""
