"""Runs stages in SDK harnesses outside of the slot's process, which speak Beam's Fn API.

Start at ``harness`` (what a slot sees), then ``worker`` (the line to one process) and ``services``
(the gRPC side of it). ``launch`` starts processes. Slots share one by ``shared_process``; if it has
one harness for all of them, by a ``relay``, too.
"""
