"""Owns the command ``sparkdrain``: runs pipelines that need no change, and checks a machine.

Never reaches into a job except through the Job API. Start reading at ``main.main``.
"""
