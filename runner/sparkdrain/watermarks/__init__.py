"""Owns the arithmetic of event time: frontiers of edges and stages, and what holds them back.

Pure, and knows nothing of Beam. Start at ``frontier``.
"""
