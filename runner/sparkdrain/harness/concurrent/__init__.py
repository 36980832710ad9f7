"""Steps with many elements in flight: one event loop for the process, a flight for each step.

``operation`` stands in a stage for such a step and belongs to the slot's thread: elements in,
results out. ``flight`` is what both threads share. User code runs in the loop, or in a pool of
threads that the loop waits for. Nothing here is in flight when a bundle has ended.
"""
