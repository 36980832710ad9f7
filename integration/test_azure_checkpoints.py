"""A stream whose checkpoints and records are in one storage account, which Azurite stands for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from azurite_server import ACCOUNT, AzuriteServer, is_there
from counted_impulses import KEYS

from sparkdrain.coordination.backends.azure import CONNECTION_STRING
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not is_there(), reason="there is no Node here, which runs Azurite"),
]

PROGRAM = Path(__file__).with_name("counted_impulses.py")
SECONDS = 200.0
STORE = "--metadata_store=azure:runs"
CONTAINER = "checkpoints"


@pytest.fixture
def account(monkeypatch):
    """A client of the account. Its connection string is all that configures the job."""
    blobs = pytest.importorskip("azure.storage.blob")
    with AzuriteServer() as server:
        monkeypatch.setenv(CONNECTION_STRING, server.connection_string())
        client = blobs.BlobServiceClient.from_connection_string(server.connection_string())
        client.create_container(CONTAINER)
        yield client
        client.close()


def start(begin: float, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(begin), "--runner=SparkDrainRunner"]
    command += ["--spark_master_url=local[2]", "--streaming", "--slots=2", "--progress=off"]
    command += ["--job_name=impulses", f"--checkpoint_dir=azfs://{ACCOUNT}/{CONTAINER}/kept"]
    command += ["--checkpoint_ms=1000", STORE, *flags]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_stream_with_checkpoints_in_azure_is_killed_resumed_and_drained(account):
    def newest() -> int:
        """The position of the newest manifest."""
        names = account.get_container_client(CONTAINER).list_blob_names()
        found = [name for name in names if name.endswith(".manifest")]
        return max((int(name.split("/manifests/")[1].split("/")[0]) for name in found), default=0)

    def await_two_more(process: subprocess.Popen[str]) -> None:
        before = newest()

        def holds() -> bool:
            assert process.poll() is None, "the job has ended"
            return newest() >= before + 2

        wait_until(holds, SECONDS, 0.5)

    begin = time.time()
    for flags in ((), ("--resume=required",)):
        killed = start(begin, *flags)
        try:
            await_two_more(killed)
        finally:
            killed.kill()
            killed.communicate()
    last = start(begin, "--resume=required")
    try:
        await_two_more(last)
        drain = [sys.executable, "-m", "sparkdrain.cli.main", "drain", "impulses", STORE]
        subprocess.run(drain, check=True, timeout=SECONDS)
        said, _ = last.communicate(timeout=SECONDS)
    finally:
        last.kill()
        last.communicate()
    state, seen, most, total = json.loads(said.splitlines()[-1])
    assert state == "DRAINED"
    of_keys = [(seen + KEYS - 1 - key) // KEYS for key in range(KEYS)]
    assert most == max(of_keys)
    assert total == sum(count * (count + 1) // 2 for count in of_keys), "each was counted once"
