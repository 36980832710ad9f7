"""Splittable DoFns as sources: restrictions that wait, go on, and are cut short by a drain."""
