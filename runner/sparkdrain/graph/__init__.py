"""Owns the way from a Beam pipeline to a plan: passes, levels, edges, stages.

Never runs user code and never imports Spark. Start at ``translate.translate``.
"""
