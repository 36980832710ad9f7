"""The jobs as one writes them by hand in PySpark's RDD API: no Beam, same input, same check.

A module has `run(spark, work)`, which returns what the Beam job's `result` returns.
"""
