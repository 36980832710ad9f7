"""A pool of workers in the program itself: what ``--environment_type=LOOPBACK`` asks for."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from functools import cache
from typing import Any, Final

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.data_sampler import DataSampler
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance
from typing_extensions import override

from sparkdrain.cached_sizes import weigh_quickly

UNIX: Final = "unix:"
"""What addresses of sockets begin with."""

EXPERIMENTS: Final = "experiments"
"""The parameter of an environment with the experiments of a job; commas are between them."""

_CACHE_BYTES: Final = 100 << 20


class _Pool(BeamFnExternalWorkerPoolServicer):
    """Starts harnesses in threads, as Beam's pool does, and lets them keep samples of elements."""

    @override
    def StartWorker(
        self, request: beam_fn_api_pb2.StartWorkerRequest, unused_context: Any
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        experiments = request.params[EXPERIMENTS].split(",")
        sampler = DataSampler.create(PipelineOptions([], experiments=experiments))
        if sampler is None:
            return super().StartWorker(request, unused_context)
        harness = self._worker_threads[request.worker_id] = SdkHarness(
            request.control_endpoint.url,
            worker_id=request.worker_id,
            state_cache_size=self._state_cache_size,
            data_buffer_time_limit_ms=self._data_buffer_time_limit_ms,
            data_sampler=sampler,
        )
        threading.Thread(target=harness.run, name="sparkdrain-loopback", daemon=True).start()
        return beam_fn_api_pb2.StartWorkerResponse()


def loopback_pool() -> str:
    """The address of this process's pool, which starts with the first call.

    A pool runs whatever it is sent, and does not ask who sends it. So it is a socket in a folder
    that only this user can enter: slots must be on this machine, and of this user.
    """
    return _pool(os.getpid())[0]


@cache
def _pool(pid: int) -> tuple[str, grpc.Server]:
    # By process: gRPC's servers do not survive a fork.
    weigh_quickly()
    server = grpc.server(shared_unbounded_instance(), options=(("grpc.so_reuseport", 0),))
    pool = _Pool(use_process=False, state_cache_size=_CACHE_BYTES)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    address = _address()
    port = server.add_insecure_port(address)
    server.start()
    return (address if address.startswith(UNIX) else f"127.0.0.1:{port}"), server


def _address() -> str:
    if sys.platform == "win32":
        return "127.0.0.1:0"  # no Unix sockets in gRPC there
    from sparkdrain.own_folder import own_folder  # noqa: PLC0415 (POSIX only)

    return f"{UNIX}{own_folder()}/{secrets.token_hex(4)}"
