"""A client without an SDK: Beam's Job API alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apache_beam.coders import VarIntCoder
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.job.utils import dict_to_struct

from sparkdrain.jobs.states import name

if TYPE_CHECKING:
    import grpc

# In seconds: what a busy machine may take for a job; a broken server is found by the assertions.
_PATIENCE = 300.0


class JobClient:
    """Prepares, runs and follows jobs.

    Args:
        patience: how long a job may take, in seconds.
    """

    def __init__(self, channel: grpc.Channel, patience: float = _PATIENCE) -> None:
        self.channel = channel
        self._patience = patience
        self.stub = beam_job_api_pb2_grpc.JobServiceStub(channel)

    def prepare(self, job_name: str = "", pipeline=None, **options) -> str:
        described = dict_to_struct({f"beam:option:{key}:v1": each for key, each in options.items()})
        request = api.PrepareJobRequest(
            job_name=job_name, pipeline=pipeline, pipeline_options=described
        )
        return self.stub.Prepare(request).preparation_id

    def run(self, job_name: str = "", **options) -> str:
        request = api.RunJobRequest(preparation_id=self.prepare(job_name, **options))
        return self.stub.Run(request).job_id

    def jobs(self) -> list[api.JobInfo]:
        """All jobs that the service knows."""
        return list(self.stub.GetJobs(api.GetJobsRequest()).job_info)

    def state(self, job_id: str) -> str:
        return name(self.stub.GetState(api.GetJobStateRequest(job_id=job_id)).state)

    def path(self, job_id: str) -> list[str]:
        """All states of a job, at its end."""
        stream = self.stub.GetStateStream(
            api.GetJobStateRequest(job_id=job_id), timeout=self._patience
        )
        return [name(event.state) for event in stream]

    def messages(self, job_id: str) -> list[str]:
        """All messages of a job, at its end."""
        stream = self.stub.GetMessageStream(
            api.JobMessagesRequest(job_id=job_id), timeout=self._patience
        )
        found = (each.message_response.message_text for each in stream)
        return [text for text in found if text]

    def later_attempts(self, job_id: str) -> list[int]:
        """The numbers of all attempts at a batch job that were told of, at its end."""
        texts = "\n".join(self.messages(job_id))
        return [*map(int, re.findall(r"the job is run again \(attempt (\d+)\)", texts))]

    def committed(self, job_id: str, counter: str) -> list[int]:
        """The committed values of a counter, one for each step that has it."""
        metrics = self.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics
        return [
            VarIntCoder().decode(info.payload)
            for info in metrics.committed
            if info.urn == "beam:metric:user:sum_int64:v1" and info.labels["NAME"] == counter
        ]

    def counts(self, job_id: str) -> list[int]:
        """How many elements a job has had in each PCollection, in the order of the numbers."""
        return self.of_urn(job_id, monitoring_infos.ELEMENT_COUNT_URN)

    def of_urn(self, job_id: str, urn: str) -> list[int]:
        """The committed values of all counters of a URN, in the order of the numbers."""
        found = self.stub.GetJobMetrics(api.GetJobMetricsRequest(job_id=job_id)).metrics.committed
        counted = (info for info in found if info.urn == urn)
        return sorted(map(monitoring_infos.extract_counter_value, counted))

    def until_message(self, job_id: str, begin: str) -> str:
        stream = self.stub.GetMessageStream(
            api.JobMessagesRequest(job_id=job_id), timeout=self._patience
        )
        for each in stream:
            if each.message_response.message_text.startswith(begin):
                stream.cancel()
                return each.message_response.message_text
        raise AssertionError(begin)

    def until_state(self, job_id: str, wanted: str) -> None:
        stream = self.stub.GetStateStream(
            api.GetJobStateRequest(job_id=job_id), timeout=self._patience
        )
        for each in stream:
            if name(each.state) == wanted:
                stream.cancel()
                return
        raise AssertionError(wanted)

    def cancel(self, job_id: str) -> str:
        return name(self.stub.Cancel(api.CancelJobRequest(job_id=job_id)).state)

    def drain(self, job_id: str) -> str:
        return name(self.stub.Drain(api.DrainJobRequest(job_id=job_id)).state)
