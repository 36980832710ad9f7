"""Owns how elements get from one level to the next: blocks, grouping, spilling.

Never runs user code and never imports Spark. Start at ``blocks`` (what is on the wire), then
``elements`` (exchanges), ``group_by_key`` (grouping) and ``outbox`` (who gets what).
"""
