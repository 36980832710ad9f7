"""PySpark's worker daemon with everything imported before it forks.

A worker then starts in milliseconds, not in the second that importing Beam takes.
"""

from __future__ import annotations

import gc

import pyspark.daemon

import sparkdrain.stages.task  # noqa: F401 - the imports are the point

if __name__ == "__main__":
    gc.collect()
    # The imported modules are never garbage; PySpark collects after every task.
    gc.freeze()
    pyspark.daemon.manager()
