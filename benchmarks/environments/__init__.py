"""The same jobs in harnesses outside of the runner's process, here and on Beam's own runner."""
