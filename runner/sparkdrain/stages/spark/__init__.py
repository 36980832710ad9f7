"""Private parts of PySpark, for Spark 3.5 to 4.3. No other module of this package uses any.

Owns: how a level becomes a Spark shuffle, files for executors, what tasks tell the driver, the JVM
of the driver, and which Spark this is. Where versions of Spark differ, a module here looks at what
PySpark has, not at its version. Never decides what runs.

A module imports ``pyspark`` itself before a part of it. The program and the start of the JVM import
at the same time; if one of them begins with a part, Python 3.11 hands out half a module.
"""
