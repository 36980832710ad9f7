"""Runs Beam's integration tests of Go against a Job service: see docs/portable_suites.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc

_MODULE = Path(__file__).with_name("go")
_SDK = "github.com/apache/beam/sdks/v2/go"
_SUITES = (
    "test/integration/primitives",
    "test/regression",
    # Packages of the SDK whose tests run pipelines, and need no service and no further modules.
    "examples/snippets",
    "pkg/beam",
    "pkg/beam/io/fileio",
    "pkg/beam/io/textio",
    "pkg/beam/testing/passert",
    "pkg/beam/transforms/batch",
    "pkg/beam/transforms/filter",
    "pkg/beam/transforms/periodic",
    "pkg/beam/transforms/stats",
    "pkg/beam/transforms/top",
    "pkg/beam/x/debug",
    "test/integration/synthetic",
    "test/integration/wordcount",
)
_DRAINED = "go-testdrain-"
_LOOK_SECONDS = 1.0


def main() -> int:
    """Run the tests; the status is 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", help="of the Job service")
    parser.add_argument("tests", nargs="?", default="", help="a regular expression of names")
    parser.add_argument("--suites", nargs="+", default=_SUITES, help="packages of the SDK")
    given = parser.parse_args()
    over = threading.Event()
    drains = threading.Thread(target=_drain, args=(given.endpoint, over))
    drains.start()
    status = 0
    try:
        for suite in given.suites:
            with tempfile.TemporaryDirectory() as folder:
                tests = Path(folder) / "tests"
                package = f"{_SDK}/{suite}"
                build = ["go", "test", "-c", "-o", tests, package]
                subprocess.run(build, cwd=_MODULE, check=True)
                command = [tests, "-test.v", f"-test.run={given.tests}", "--runner=universal"]
                command += [f"--endpoint={given.endpoint}", "--environment_type=LOOPBACK"]
                status |= subprocess.run(command, cwd=_folder(package), check=False).returncode
    finally:
        over.set()
        drains.join()
    return status


def _folder(package: str) -> str:
    """Where a package is: its tests read files there."""
    asked = ["go", "list", "-f", "{{.Dir}}", package]
    return subprocess.run(
        asked, cwd=_MODULE, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def _drain(endpoint: str, over: threading.Event) -> None:
    """Drain what ``TestDrain`` submits, once it runs: the test itself only waits for its end."""
    with grpc.insecure_channel(endpoint) as channel:
        jobs = beam_job_api_pb2_grpc.JobServiceStub(channel)
        while not over.wait(_LOOK_SECONDS):
            for job in jobs.GetJobs(api.GetJobsRequest()).job_info:
                if job.job_name.startswith(_DRAINED) and job.state == api.JobState.RUNNING:
                    time.sleep(_LOOK_SECONDS)
                    jobs.Drain(api.DrainJobRequest(job_id=job.job_id))


if __name__ == "__main__":
    sys.exit(main())
