"""Measures every table of docs/benchmarks.md anew, in one run, and writes them into the page."""
