"""Spark starts beside the program's own imports, and imports nothing of theirs.

Where two threads import modules that import each other, one of them may see half a module.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import sparkdrain.stages.cluster.context

print([name for name in sys.modules if name.split(".")[0] == "apache_beam"])
"""


def test_spark_is_started_without_beam():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
