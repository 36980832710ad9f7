"""Bundle finalizers as part of a slot's state, so that a loss does not lose them."""

from __future__ import annotations

import functools
import json
import logging
import pickle
import types
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from sparkdrain.graph.state_ids import FINALIZERS_STATE_ID
from sparkdrain.panes.group_keys import group_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from timers_state import Overlay

_LOGGER = logging.getLogger(__name__)
_ROWS: Final = b"f"
# A larger finalizer is more than a position in a source, and would be written in every round.
_LARGEST: Final = 64 << 10


@runtime_checkable
class Acknowledgement(Protocol):
    """A finalizer that tells the outside how far the job is, and can be made anew after a loss.

    The DoFn that registers it has a method ``acknowledgement(data)``, which makes it.

    Attributes:
        ident: a later one of the same DoFn and name takes the place of an earlier one.
        data: all that must be known to make it.
    """

    ident: str
    data: str

    def __call__(self) -> object:
        """Begin to tell; need not wait."""

    def settle(self, seconds: float) -> bool:
        """Whether it was told, after waiting for so long if need be.

        Raises:
            Exception: why it was not. Then it is called again.
        """


@dataclass(frozen=True, slots=True)
class FinalizerRow:
    """Where a finalizer is kept; of one name the newest round counts."""

    key: bytes
    name: bytes
    round: int


class KeptFinalizers:
    """Finalizers of one slot that are part of its state: acknowledgements, and what pickles.

    Args:
        overlay: the slot's state.
        groups: the key groups of the slot, with which its state goes to another one.
    """

    def __init__(self, overlay: Overlay, groups: range) -> None:
        self._overlay = overlay
        self._keys = group_keys()[groups.start : groups.stop]
        self._too_large: set[type] = set()

    def put(self, round_: int, number: int, transform: str, callback: Any) -> FinalizerRow | None:
        """Keep a finalizer that was registered in a round; None: it cannot be kept."""
        if isinstance(callback, Acknowledgement):
            name = json.dumps([transform, callback.ident]).encode()
            fields = {"transform": transform, "data": callback.data}
        else:
            pickled = self._pickled(callback)
            if pickled is None:
                return None
            name = b"%d.%d" % (round_, number)
            fields = {"transform": transform, "pickled": b64encode(pickled).decode()}
        row = FinalizerRow(self._keys[0], name, round_)
        value = json.dumps({"round": round_, **fields}).encode()
        self._overlay.scope(FINALIZERS_STATE_ID, row.key).map(_ROWS).put(name, value)
        return row

    def _pickled(self, callback: Any) -> bytes | None:
        # Closures are refused at once; what is large, the first time.
        whose = type(getattr(callback, "__self__", callback))
        if whose in self._too_large or not isinstance(
            callback, functools.partial | types.FunctionType | types.MethodType
        ):
            return None
        try:
            pickled = pickle.dumps(callback)
        except Exception:  # noqa: BLE001 - whatever it is, it stays in memory alone
            return None
        if len(pickled) > _LARGEST:
            self._too_large.add(whose)
            return None
        return pickled

    def remove(self, row: FinalizerRow) -> None:
        """Forget what was run, unless a later one has taken its place."""
        rows = self._overlay.scope(FINALIZERS_STATE_ID, row.key).map(_ROWS)
        value = rows.get(row.name)
        if value is not None and json.loads(value)["round"] == row.round:
            rows.remove(row.name)

    def restored(
        self, remake: Callable[[str, str], Callable[[], object]]
    ) -> Iterator[tuple[FinalizerRow, str, Callable[[], object]]]:
        """All that are kept, with their transforms, in the order of their rounds.

        What cannot be made anew is logged, and left out.

        Args:
            remake: makes an acknowledgement of a transform anew, given its data.
        """
        for row, fields in sorted(self._rows(), key=lambda entry: (entry[0].round, entry[0].name)):
            transform = fields["transform"]
            try:
                if "data" in fields:
                    callback = remake(transform, fields["data"])
                else:
                    callback = pickle.loads(b64decode(fields["pickled"]))  # noqa: S301 - our state
            except Exception:
                _LOGGER.exception("A bundle finalizer of %s cannot be run again.", transform)
            else:
                yield row, transform, callback

    def _rows(self) -> Iterator[tuple[FinalizerRow, dict[str, Any]]]:
        for key in self._keys:
            for name, value in self._overlay.scope(FINALIZERS_STATE_ID, key).map(_ROWS).items():
                fields = json.loads(value)
                yield FinalizerRow(key, name, fields["round"]), fields
