"""Stateful DoFns in the slot's process, key after key: elements of keys in, timers fired.

Start at ``inlet``. This package never decides which keys have a turn or when a timer is due; the
slot does, see ``harness.KeyedInlet``.
"""
