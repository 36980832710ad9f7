"""What it takes to end a streaming job with nothing left inside, and what others leave there."""
