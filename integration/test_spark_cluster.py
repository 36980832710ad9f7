"""The cluster for tests leaves nothing behind, however the tests end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow

LAUNCHER = Path(__file__).with_name("spark_cluster.py")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_a_cluster_ends_with_the_program_that_started_it(number):
    launcher = subprocess.Popen(
        [sys.executable, str(LAUNCHER), "--workers=1"], stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    try:
        assert launcher.stdout.readline().startswith("--spark_master_url=spark://127.0.0.1:")
        services = psutil.Process(launcher.pid).children(recursive=True)
        assert sum("java" in service.name() for service in services) == 2
    finally:
        launcher.send_signal(number)
        launcher.communicate(timeout=60)
    _, alive = psutil.wait_procs(services, 30)
    assert not alive
