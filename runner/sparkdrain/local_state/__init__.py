"""Owns what a host keeps of published state in a folder that outlives executors and jobs.

Files are told apart by content, so nothing in the folder can make a slot wrong: a file that is
missing or damaged is fetched from the checkpoint. Never knows what a checkpoint is, what state
means, or who runs where. Start with ``slot_files.py``; ``docs/checkpoints.md`` has the layout.
"""
