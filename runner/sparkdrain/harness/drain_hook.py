"""``on_drain``: how a DoFn learns that the job is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.core import DoFnInfo
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.graph.plan import Stage

_WITH_DOFNS: Final = (urns.PAR_DO, urns.PROCESS_RESTRICTIONS)


class DrainHook:
    """Has the end of a bundle call ``on_drain`` first, if that is due.

    So what ``on_drain`` makes goes where that of ``finish_bundle`` does, under the same rules.

    Args:
        dofn: an instance that has ``on_drain``; its ``finish_bundle`` is replaced.
    """

    def __init__(self, dofn: Any) -> None:
        self.is_due = False
        self._on_drain = dofn.on_drain
        self._finish_bundle = dofn.finish_bundle
        dofn.finish_bundle = self._finish

    def _finish(self) -> Iterator[Any]:
        if self.is_due:
            yield from self._on_drain() or ()
        yield from self._finish_bundle() or ()


def drain_hook(dofn: Any) -> DrainHook | None:
    """The hook of a DoFn, if it wants one."""
    dofn = _unwrapped(dofn)
    return DrainHook(dofn) if _wants_one(dofn) else None


def has_drain_hook(stage: Stage, context: Any) -> bool:
    """Whether a DoFn of a stage wants a hook; see ``loaded_dofns``."""
    return any(_wants_one(_unwrapped(dofn)) for dofn in loaded_dofns(stage, context))


def loaded_dofns(stage: Stage, context: Any) -> Iterator[Any]:
    """The DoFns of a stage, loaded anew; sets none of them up.

    Args:
        context: Beam's, of the pipeline.
    """
    for _, data in stage.transforms:
        proto = beam_runner_api_pb2.PTransform.FromString(data)
        if proto.spec.urn in _WITH_DOFNS:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
            info = DoFnInfo.from_runner_api(payload.do_fn, context)
            dofn, *_ = pickler.loads(info.serialized_dofn_data())
            yield dofn


def _unwrapped(dofn: Any) -> Any:
    while isinstance(dofn, AbstractDoFnWrapper):
        dofn = dofn.dofn
    return dofn


def _wants_one(dofn: Any) -> bool:
    return callable(getattr(dofn, "on_drain", None))
