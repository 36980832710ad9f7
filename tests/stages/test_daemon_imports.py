"""What tasks need is there before a worker is forked: each of them would have to import it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from sparkdrain.stages import daemon

daemon.import_all()
needed = ["apache_beam.runners.worker.operations", "pyspark.worker", "sparkdrain.harness.factory"]
print([name for name in needed if name not in sys.modules])
"""


def test_workers_are_forked_from_a_process_that_has_imported_all():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
