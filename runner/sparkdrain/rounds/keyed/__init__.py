"""Inputs of DoFns with state and timers: key after key, in the order of time."""
