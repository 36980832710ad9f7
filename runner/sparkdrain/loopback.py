"""A pool of workers in the program itself: what ``--environment_type=LOOPBACK`` asks for."""

from __future__ import annotations

import os
import secrets
import sys
from functools import cache
from typing import Final

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from sparkdrain.cached_sizes import weigh_quickly

UNIX: Final = "unix:"
"""What addresses of sockets begin with."""

_CACHE_BYTES: Final = 100 << 20


def loopback_pool() -> str:
    """The address of this process's pool, which starts with the first call.

    A pool runs whatever it is sent, and asks nobody who they are. So it is a socket in a folder
    that only this user can enter: slots must be on this machine, and of this user.
    """
    return _pool(os.getpid())[0]


@cache
def _pool(pid: int) -> tuple[str, grpc.Server]:
    # By process: gRPC's servers do not survive a fork.
    weigh_quickly()
    server = grpc.server(shared_unbounded_instance(), options=(("grpc.so_reuseport", 0),))
    pool = BeamFnExternalWorkerPoolServicer(use_process=False, state_cache_size=_CACHE_BYTES)
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
