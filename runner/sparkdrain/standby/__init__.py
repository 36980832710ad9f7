"""Owns: which of several drivers of a streaming job leads, and how the others hear of its end.

Never: decides what may be written. Claims of checkpoints do that (`checkpoints/lease.py`). Who
leads decides only who tries.
Start at `leadership.py`, what an engine needs; `standby.py` is the driver's part.
"""
