"""Measures this runner and its peers on the same jobs, in one run, on one machine.

Never part of the installed package; needs nothing outside the repository but package registries.
Start at `__main__.py`; docs/benchmarks.md says what each job and figure means.
"""
