"""GroupByKey of unbounded input: which pane of which window comes when, with state that lasts.

Owns windows, triggers, panes and lateness of grouped input. Never knows who sends or runs it.
Start with ``grouping.py``.
"""
