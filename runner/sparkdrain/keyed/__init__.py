"""Stateful DoFns, key after key: what a batch job and a round of a streaming job do alike.

Start at ``feeding``, which feeds the elements of keys, and ``due``, which fires their timers.
This package never decides which keys have a turn or when a timer is due; its callers do.
"""
