"""Owns metrics: how those of many slots become those of a job. Start at ``merge``."""
