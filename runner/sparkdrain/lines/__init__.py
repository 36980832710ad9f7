"""Connections between the processes of a job: who listens where, and who is let in.

A listener binds to a TCP address or to a Unix socket. Its ``Endpoint`` travels with the tasks,
which dial it. Both ends of the ``Line`` show that they know the key of the job, at the ``Door``.
"""
