"""Host processes: what a slot of a streaming job keeps between Spark tasks lives in one process.

Read ``call`` (a Spark task's side), ``host`` (what serves it), ``warden`` (what looks after a
host) and ``leash`` (the driver's side). Nothing here knows what a host's service does.
"""
