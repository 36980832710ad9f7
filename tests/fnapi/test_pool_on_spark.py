"""A batch job on Spark whose stages run in harnesses of a pool."""

from __future__ import annotations

from concurrent import futures

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.testing.util import assert_that, equal_to
from typing_extensions import override


class Pool(BeamFnExternalWorkerPoolServicer):
    """Beam's, with threads for harnesses; knows which it was asked to start, and to stop."""

    def __init__(self):
        super().__init__(use_process=False)
        self.started, self.stopped = set(), set()

    @override
    def StartWorker(self, start_worker_request, unused_context):
        self.started.add(start_worker_request.worker_id)
        return super().StartWorker(start_worker_request, unused_context)

    @override
    def StopWorker(self, stop_worker_request, unused_context):
        self.stopped.add(stop_worker_request.worker_id)
        return super().StopWorker(stop_worker_request, unused_context)


@pytest.mark.spark
def test_all_harnesses_of_a_pool_have_ended_when_the_job_has():
    pool = Pool()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    options = PipelineOptions(
        runner="SparkDrainRunner",
        spark_master_url="local[2]",
        environment_type="EXTERNAL",
        environment_config=f"localhost:{port}",
    )
    try:
        with beam.Pipeline(options=options) as pipeline:
            pairs = pipeline | beam.Create([(n % 3, n) for n in range(12)]) | beam.Reshuffle()
            assert_that(pairs | beam.CombinePerKey(sum), equal_to([(0, 18), (1, 22), (2, 26)]))
        assert pool.started
        assert pool.started == pool.stopped
    finally:
        server.stop(0)
