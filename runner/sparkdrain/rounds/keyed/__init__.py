"""Owns the inputs of stateful DoFns in rounds: key after key, in time order if DoFns ask for that.

Never keeps state itself; that is ``timers_state``. Start at ``input``.
"""
