"""What it costs that a job survives: checkpoints, and what they are for."""
