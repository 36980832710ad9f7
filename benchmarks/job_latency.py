"""How long a trivial job takes at a server: from its submission until it is known to be DONE.

Run: ``python -m benchmarks.job_latency [--jobs N] [--pause SECONDS] [--warm on|off]``. One server
process, and one client that submits a pipeline of two elements N times; before each job the client
waits, so that the server can make its spare driver ready. Prints for each job the seconds, and for
each message of the job when it came.
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def served(*options: str) -> Iterator[str]:
    """A server process at a free port; its endpoint."""
    command = [sys.executable, "-m", "sparkdrain.cli.main", "server", "--job-port=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"listens at (\S+)\. Ctrl-C", process.stdout.readline())
            assert found is not None, "the server has not started"
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def trivial_job(endpoint: str, master: str) -> tuple[float, list[str]]:
    """The seconds of one job, and what it told with the second at which it did."""
    options = ["--runner=SparkDrainRunner", f"--job_endpoint={endpoint}", "--progress=off"]
    pipeline = beam.Pipeline(
        options=PipelineOptions([*options, f"--spark_master_url={master}", "--job_name=trivial"])
    )
    _ = pipeline | beam.Create([1, 2]) | beam.Map(lambda number: number + 1)
    begin = time.monotonic()
    job_id = pipeline.run().job_id
    told = [f"{time.monotonic() - begin:6.2f} submitted"]
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        for each in stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id)):
            text = each.message_response.message_text
            state = api.JobState.Enum.Name(each.state_response.state)
            told.append(f"{time.monotonic() - begin:6.2f} {text or state}")
    assert told[-1].endswith("DONE"), told
    return time.monotonic() - begin, told


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds before each job")
    parser.add_argument("--warm", choices=("on", "off"), default="on")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    took = []
    with served(f"--warm={given.warm}") as endpoint:
        for number in range(given.jobs):
            time.sleep(given.pause)
            seconds, told = trivial_job(endpoint, given.master)
            took.append(seconds)
            print(f"job {number}: {seconds:.2f} s", *told, sep="\n  ", flush=True)
    print(f"warm={given.warm} median {statistics.median(took):.2f} s, best {min(took):.2f} s")


if __name__ == "__main__":
    main()
