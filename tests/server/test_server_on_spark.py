"""Slow: a server process with drivers on Spark: it is killed, and it has a hundred jobs at once."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import grpc
import psutil
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import CombiningValueStateSpec

from tests.support.job_client import JobClient
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

MB = 1 << 20


def run(endpoint: str, build, *more: str) -> str:
    options = [f"--job_endpoint={endpoint}", "--runner=SparkDrainRunner", "--progress=off", *more]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    build(pipeline)
    return pipeline.run().job_id


def test_a_stream_goes_on_from_its_checkpoint_after_the_server_was_killed(tmp_path):
    counted = str(tmp_path / "counted")

    class Count(beam.DoFn):
        COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

        def process(self, element, count=beam.DoFn.StateParam(COUNT)):
            count.add(1)
            with open(counted, "a") as file:
                file.write(f"{count.read()}\n")

    def build(pipeline) -> None:
        impulses = pipeline | PeriodicImpulse(fire_interval=0.2)
        impulses | beam.Map(lambda x: ("key", x)) | beam.ParDo(Count())

    def counts() -> list[int]:
        try:
            with open(counted) as file:
                return [int(line) for line in file.read().splitlines()]
        except FileNotFoundError:
            return []

    def newest() -> str:
        return max(map(str, (tmp_path / "checkpoints").glob("*/manifests/*/*")), default="")

    where = ["--server-dir", str(tmp_path / "server"), "--warm=off", "--max-jobs=1"]
    checkpoints = f"--checkpoint_dir={tmp_path / 'checkpoints'}"
    with server_process(*where) as (process, endpoint):
        job_id = run(endpoint, build, "--streaming", checkpoints, "--checkpoint_ms=500")
        wait_until(lambda: len(counts()) > 20, 300)
        # All of them may have come in the first round. The 2nd checkpoint from now has them.
        for _ in range(2):
            known = newest()
            wait_until(lambda known=known: newest() != known, 60)
        process.kill()
        process.wait()
    before = len(counts())
    with server_process(*where) as (_, endpoint), grpc.insecure_channel(endpoint) as channel:
        client = JobClient(channel)
        client.until_message(job_id, "The job service was restarted")
        wait_until(lambda: len(counts()) > before + 10, 300)
        assert client.drain(job_id) in {"DRAINING", "DRAINED"}
        assert client.path(job_id)[-1] == "DRAINED"
    # The driver of the killed server may have counted a little longer. Rounds after the last
    # checkpoint are made again: the counter goes back at most once, and nothing is left out.
    after = counts()
    again = next((n for n in range(before, len(after)) if after[n] <= after[n - 1]), before)
    assert after[:again] == list(range(1, again + 1))
    assert after[again] > 1, "it began anew"
    assert after[again] <= again + 1
    assert after[again:] == list(range(after[again], after[again] + len(after) - again))


def test_a_warm_server_has_a_driver_ready_also_after_its_spare_was_killed():
    def trivial(pipeline) -> None:
        pipeline | beam.Create([1, 2]) | beam.Map(lambda number: number + 1)

    def spare() -> psutil.Process | None:
        for child in psutil.Process(process.pid).children():
            with contextlib.suppress(psutil.Error):  # it ends just now
                if "warm" in child.cmdline():
                    return child
        return None

    def was_ready() -> bool:
        """Whether a job ran in a driver that had waited for it."""
        job_id = run(endpoint, trivial, "--spark_master_url=local[2]")
        assert client.path(job_id)[-1] == "DONE"
        return any("which was ready" in text for text in client.messages(job_id))

    with server_process() as (process, endpoint), grpc.insecure_channel(endpoint) as channel:
        client = JobClient(channel)
        assert not was_ready(), "the first job has another session than the first spare"
        # A job that comes too soon takes the spare that is not ready yet, so they come rarely.
        wait_until(was_ready, 600, pause=60)
        killed = wait_until(spare, 60)
        killed.kill()
        wait_until(lambda: (found := spare()) and found.pid != killed.pid, 60)
        wait_until(was_ready, 600, pause=60)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 2, "the spare has a JVM and a nursery"
    assert psutil.wait_procs(family, timeout=30)[1] == []


@pytest.mark.timeout(3600)
def test_a_second_hundred_of_programs_at_once_takes_no_more_memory():
    """Each has a driver process and a Spark application of its own."""

    def build(pipeline) -> None:
        pipeline | beam.Create([b"x" * (MB // 2)]) | beam.Map(len)

    def submit(_number: int) -> str:
        return client.path(run(endpoint, build))[-1]

    def hundred() -> list[str]:
        with ThreadPoolExecutor(100) as programs:
            return list(programs.map(submit, range(100)))

    def settled_mb() -> float:
        """The least within some seconds: what a job has left gives memory back later."""
        found = []
        for _ in range(20):
            time.sleep(0.5)
            found.append(psutil.Process(process.pid).memory_info().rss / MB)
        return min(found)

    where = ["--max-jobs=3", "--spark-master-url=local[1]"]
    with server_process(*where) as (process, endpoint), grpc.insecure_channel(endpoint) as channel:
        client = JobClient(channel, patience=3000.0)
        assert set(hundred()) == {"DONE"}
        first = settled_mb()
        assert set(hundred()) == {"DONE"}
        second = settled_mb()
        assert len(client.jobs()) == 200
    # Pipelines alone, if they were kept, would be 50 MB a hundred.
    print(f"the server has {first:.0f} MB after a hundred jobs, {second:.0f} MB after two")
    assert second - first < 25
