"""A file system of Beam's, ``gated://...``, with gates before and behind the manifests of a drain.

The gates are named ``before X`` and ``behind X``. X is ``cut`` for a manifest that says where the
sources were cut, ``publishing`` for the first of the two last ones, ``over`` for the second.
"""

from __future__ import annotations

import io

from sparkdrain.checkpoints.manifest import decode
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.rounds.driver.inheritances import DriverState
from tests.support.gates import Gates
from tests.support.needy_file_system import NeedyFileSystem

SCHEME = "gated"


class GatedFileSystem(NeedyFileSystem):
    """As ``needy://``; the gates are in ``gates`` beside the files."""

    @classmethod
    def scheme(cls):
        return SCHEME

    def create(self, path, mime_type="", compression_type=None):
        if "/manifests/" not in path:
            return super().create(path, mime_type, compression_type)
        return _Manifest(self._place(path), Gates(str(self._root / "gates")))


class _Manifest(io.BytesIO):
    """Is there when it is closed, at once and whole."""

    def __init__(self, place, gates) -> None:
        super().__init__()
        self._place = place
        self._gates = gates

    def close(self):
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        name = _name(DriverState.of(decode(data, str(self._place))))
        self._gates.pass_by(f"before {name}")
        self._place.parent.mkdir(parents=True, exist_ok=True)
        part = self._place.parents[2] / f"part-{self._place.name}"
        part.write_bytes(data)
        part.replace(self._place)
        self._gates.pass_by(f"behind {name}")


def _name(state: DriverState) -> str:
    match state.phase:
        case DrainPhase.READING:
            return "any"
        case DrainPhase.PUBLISHING | DrainPhase.ENDING:
            return "publishing"
        case DrainPhase.DRAINED | DrainPhase.DONE:
            return "over"
        case _:
            return "cut"
