"""An SDK harness that does not keep to the Fn API; the command of a PROCESS environment.

Its first argument says how: ``elements`` that no coder has written, ``messages`` that are none,
``silence`` after each request, or an ``error`` instead of any work. It says so before it connects.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import grpc
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc

_SINK = "beam:runner:sink:v1"
_CONTROL = "/org.apache.beam.model.fn_execution.v1.BeamFnControl/Control"
_RUBBISH = b"\xff" * 100


def main(how: str, given: dict[str, str]) -> None:
    print(f"this harness does {how}", flush=True)
    channel = grpc.intercept_channel(
        grpc.insecure_channel(given["control_endpoint"]), _Named(given["id"])
    )
    answers, calls, wake = [], [], threading.Condition()

    def to_runner():
        while True:
            with wake:
                wake.wait_for(lambda: answers)
                yield answers.pop(0)

    def answer(response: bytes) -> None:
        with wake:
            answers.append(response)
            wake.notify_all()

    requests = channel.stream_stream(_CONTROL, None, api.InstructionRequest.FromString)(to_runner())
    for request in requests:
        response = api.InstructionResponse(instruction_id=request.instruction_id)
        if how == "messages":
            answer(_RUBBISH)
        elif how == "error":
            response.error = "something is wrong in here"
            answer(response.SerializeToString())
        elif how == "elements":
            if request.HasField("process_bundle"):
                _send_rubbish(channel, request, calls)
                response.process_bundle.SetInParent()
            answer(response.SerializeToString())
        else:
            time.sleep(1)


def _send_rubbish(channel, request: api.InstructionRequest, calls: list) -> None:
    control = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
    wanted = request.process_bundle.process_bundle_descriptor_id
    descriptor = control.GetProcessBundleDescriptor(
        api.GetProcessBundleDescriptorRequest(process_bundle_descriptor_id=wanted)
    )
    data = [
        api.Elements.Data(
            instruction_id=request.instruction_id, transform_id=id_, data=data, is_last=not data
        )
        for id_, transform in descriptor.transforms.items()
        if transform.spec.urn == _SINK
        for data in (_RUBBISH, b"")
    ]
    done = threading.Event()

    def elements():
        yield api.Elements(data=data)
        done.wait(60)

    # A call that nobody holds is cancelled.
    calls.append(beam_fn_api_pb2_grpc.BeamFnDataStub(channel).Data(elements()))
    time.sleep(0.5)  # it is there before the answer


class _Named(grpc.StreamStreamClientInterceptor, grpc.UnaryUnaryClientInterceptor):
    """Says with each call which harness it is."""

    def __init__(self, id_: str) -> None:
        self._metadata = (("worker_id", id_),)

    def intercept_stream_stream(self, continuation, details, requests):
        return continuation(details._replace(metadata=self._metadata), requests)

    def intercept_unary_unary(self, continuation, details, request):
        return continuation(details._replace(metadata=self._metadata), request)


if __name__ == "__main__":
    with contextlib.suppress(grpc.RpcError):
        main(sys.argv[1], dict(each[2:].split("=", 1) for each in sys.argv[2:]))
    time.sleep(0.5)  # Java's harness does not end at once either when its connection does
