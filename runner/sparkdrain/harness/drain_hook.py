"""``on_drain``: how a DoFn learns that the job is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.typehints.typecheck import AbstractDoFnWrapper

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    while isinstance(dofn, AbstractDoFnWrapper):
        dofn = dofn.dofn
    return DrainHook(dofn) if callable(getattr(dofn, "on_drain", None)) else None
