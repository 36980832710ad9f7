"""Owns the durable copies of a streaming job's state: what they are, where, and who may write them.

Never knows what the state means, how rounds run or what Spark is. Start with ``manifest.py``;
``docs/checkpoints.md`` has the layout in storage and what is promised.
"""
