"""What gRPC reads from the environment when this process makes its server."""

from __future__ import annotations

from sparkdrain.jobs.local import _settings_of_grpc

# A client waits for an answer while its server stops, as happens at the end of a program.
STOPPED_WHILE_CALLED = """
import os, threading
from concurrent import futures
import grpc
from sparkdrain.jobs.local import _settings_of_grpc

called, over = threading.Event(), threading.Event()

class Waiting(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.wait)

    def wait(self, request, context):
        called.set()
        over.wait(30)

with _settings_of_grpc(os.environ):
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Waiting()])
    port = server.add_insecure_port("localhost:0")
    server.start()
call = grpc.insecure_channel(f"localhost:{port}").unary_unary("/a/b").future(b"")
called.wait(30)
server.stop(None)
print(call.exception(30).code())
over.set()
"""


def test_a_program_does_not_print_that_its_server_has_ended(python):
    silent = python("-c", STOPPED_WHILE_CALLED)
    assert silent.stdout == "StatusCode.UNAVAILABLE\n"
    assert "goaway" not in silent.stderr


def test_programs_that_are_started_later_do_not_inherit_the_settings():
    environ = {"OTHER": "1"}
    with _settings_of_grpc(environ):
        assert environ["GRPC_ENABLE_FORK_SUPPORT"] == "false"
    assert environ == {"OTHER": "1"}


def test_what_the_user_says_stays():
    given = {"GRPC_ENABLE_FORK_SUPPORT": "true", "GRPC_VERBOSITY": "INFO"}
    environ = dict(given)
    with _settings_of_grpc(environ):
        assert environ == given
    assert environ == given
