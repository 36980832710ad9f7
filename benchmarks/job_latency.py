"""How long a trivial job takes at a server: from its submission until it is known to be DONE.

Run: ``python -m benchmarks.job_latency [--jobs N] [--pause SECONDS] [--warm on|off]
[--language python|java [--archive]]``. One server process, and one client that submits a pipeline
of two elements, or eight in Java, N times; before each job the client waits, so that the server can
make its spare driver ready. Prints for each job the seconds, and for each message of the job when
it came. A program in Java is a new process for each job: its time begins when it calls ``run()``.
With ``--archive`` it has an archive of the classes that it loads, which a run before has written.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc

from benchmarks.environments.programs import build
from benchmarks.own_server import served
from benchmarks.plan import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_SECONDS = 0.01


def trivial_job(endpoint: str, master: str) -> tuple[float, list[str]]:
    """The seconds of one job, and what it told with the second at which it did."""
    options = ["--runner=SparkDrainRunner", f"--job_endpoint={endpoint}", "--progress=off"]
    pipeline = beam.Pipeline(
        options=PipelineOptions([*options, f"--spark_master_url={master}", "--job_name=trivial"])
    )
    _ = pipeline | beam.Create([1, 2]) | beam.Map(lambda number: number + 1)
    begin = time.time()
    told = _told(endpoint, pipeline.run().job_id)
    return _since(begin, told)


def trivial_java_job(endpoint: str, home: Path, *java: str) -> tuple[float, list[str]]:
    """The same of a job in Java.

    Args:
        endpoint: of the server.
        home: of the program.
        java: options of Java's for the program.
    """
    command = _java_program(endpoint, home, *java)
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)

        def known() -> set[str]:
            return {info.job_id for info in stub.GetJobs(api.GetJobsRequest()).job_info}

        before = known()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            began = next(line for line in client.stdout if line.startswith("began "))
            while not (new := known() - before):
                assert client.poll() is None, "the program has ended"
                time.sleep(_LOOK_SECONDS)
            told = _told(endpoint, new.pop())
            client.terminate()  # it asks every three seconds only whether the job is over
    return _since(int(began.split()[1]) / 1000, told)


def archive(endpoint: str, home: Path, file: Path) -> None:
    """Write the archive of the classes of the program of such jobs."""
    command = _java_program(endpoint, home, f"-XX:ArchiveClassesAtExit={file}")
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _java_program(endpoint: str, home: Path, *java: str) -> list[str]:
    command = ["java", *java, "-cp", (home / "path").read_text(), "Jobs"]
    command += ["--runner=PortableRunner", f"--jobEndpoint={endpoint}"]
    return [*command, "--job=trivial", "--elements=8"]


def _told(endpoint: str, job_id: str) -> list[tuple[float, str]]:
    """What a job tells, and when."""
    told = [(time.time(), "is known")]
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        for each in stub.GetMessageStream(api.JobMessagesRequest(job_id=job_id)):
            text = each.message_response.message_text
            state = api.JobState.Enum.Name(each.state_response.state)
            told.append((time.time(), text or state))
    assert told[-1][1] == "DONE", told
    return told


def _since(begin: float, told: list[tuple[float, str]]) -> tuple[float, list[str]]:
    return told[-1][0] - begin, [f"{when - begin:6.2f} {text}" for when, text in told]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds before each job")
    parser.add_argument("--warm", choices=("on", "off"), default="on")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--language", choices=("python", "java"), default="python")
    parser.add_argument("--archive", action="store_true", help="of the classes of the program")
    given = parser.parse_args()
    if given.archive and given.language != "java":
        parser.error("--archive is for --language java")
    took = []
    programs = ROOT / ".cache" / "programs"
    options: list[str] = []
    if given.language == "java":
        build("java", programs)
    with served(f"--warm={given.warm}", f"--spark-master-url={given.master}") as endpoint:
        if given.archive:
            file = programs / "java" / "classes.jsa"
            archive(endpoint, programs / "java", file)
            options.append(f"-XX:SharedArchiveFile={file}")
        for number in range(given.jobs):
            time.sleep(given.pause)
            if given.language == "java":
                seconds, told = trivial_java_job(endpoint, programs / "java", *options)
            else:
                seconds, told = trivial_job(endpoint, given.master)
            took.append(seconds)
            print(f"job {number}: {seconds:.2f} s", *told, sep="\n  ", flush=True)
    median = f"median {statistics.median(took):.2f} s, best {min(took):.2f} s"
    print(f"{given.language} warm={given.warm} {median}")


if __name__ == "__main__":
    main()
