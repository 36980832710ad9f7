"""What users say of steps that wait: how many elements may be in flight, and what then happens.

Nothing here knows the engine: a pipeline that uses it runs on any runner, there element after
element. The engine's part is ``harness.concurrent``. Start at ``concurrently``.
"""
