"""What Beam's harness in a process of ours answers: each metric by its short id alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.runners.worker import sdk_worker

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_fn_api_pb2


def name_metrics_once() -> None:
    """Have Beam's harness in this process answer by ``BriefWorker``."""
    sdk_worker.SdkWorker = BriefWorker


class BriefWorker(sdk_worker.SdkWorker):
    """Beam's, which sends each metric once. Beam's own sends it by its id and with its name."""

    def process_bundle(self, *args: Any, **kwargs: Any) -> beam_fn_api_pb2.InstructionResponse:
        """Process a bundle."""
        response: beam_fn_api_pb2.InstructionResponse = super().process_bundle(*args, **kwargs)
        _shorten(response.process_bundle)
        return response

    def process_bundle_progress(
        self, *args: Any, **kwargs: Any
    ) -> beam_fn_api_pb2.InstructionResponse:
        """Tell how far a bundle is."""
        response: beam_fn_api_pb2.InstructionResponse = super().process_bundle_progress(
            *args, **kwargs
        )
        if response.HasField("process_bundle_progress"):  # else it is an error
            _shorten(response.process_bundle_progress)
        return response


def _shorten(
    answer: beam_fn_api_pb2.ProcessBundleResponse | beam_fn_api_pb2.ProcessBundleProgressResponse,
) -> None:
    if len(answer.monitoring_data) == len(answer.monitoring_infos):
        answer.ClearField("monitoring_infos")
