"""The streaming jobs written by hand for bytewax: no Beam, same input, same check.

A module has `build(work, part, tell)`. It makes the dataflow over the shards of the slice `part`;
`tell` gets the sums of one worker.
"""
