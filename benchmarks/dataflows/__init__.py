"""The streaming jobs written by hand for bytewax: no Beam, same input, same check.

A module has `build(work, tally)`, which makes the dataflow; `tally` gets the sums of one worker.
"""
