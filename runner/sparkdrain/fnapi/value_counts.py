"""Has an SDK harness count values whose coder only the harness knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.aside import StageAside
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.fnapi.worker import SdkWorker

_LENGTHS: Final = "sparkdrain:lengths"


class ValueCounts:
    """Counts values that stand one behind the other, by a stage that gives the length of each.

    Args:
        worker: the harness, which is amid another bundle.
        known: a descriptor with the coder.
        capabilities: what the harness's SDK can do.
    """

    def __init__(
        self,
        worker: SdkWorker,
        known: beam_fn_api_pb2.ProcessBundleDescriptor,
        coder: str,
        *,
        capabilities: Container[str],
    ) -> None:
        lengths = beam_runner_api_pb2.Coder(component_coder_ids=[coder])
        lengths.spec.urn = common_urns.coders.LENGTH_PREFIX.urn
        self._stage = StageAside(
            worker,
            {**known.coders, _LENGTHS: lengths},
            coder,
            _LENGTHS,
            capabilities=capabilities,
        )

    def count(self, several: Sequence[bytes]) -> list[int]:
        """How many values each of several pieces of data has."""
        return list(map(_count, self._stage.run(several)))


def _count(lengths: bytes) -> int:
    stream, count = create_InputStream(lengths), 0
    while stream.size() > 0:
        stream.read(stream.read_var_int64())
        count += 1
    return count
