"""Owns how levels run as Spark jobs, in batch and in streaming jobs.

Never decides which level runs next. Start at ``level_jobs``.
"""
