"""Owns the Job service at an address: who may reach it, which jobs wait, a driver process for each.

Never runs a pipeline itself: a driver process runs the Job service of ``jobs`` for one job, and
this package speaks Beam's Job API with the driver. Start reading at ``server.StandingServer``, then
``driven_job.DrivenJob``.
"""
