"""Answers what an SDK harness asks of side inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sparkdrain.fnapi.errors import UnknownState
from sparkdrain.shuffle.values import joined_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.graph.plan import EdgeId
    from sparkdrain.side_inputs.state import SideContent

_COUNT_BYTES: Final = 4
# A key goes to the harness within one answer, with its values. SDKs ask for the values of a key
# alone if they get an error.
_ENTRY_BYTES: Final = 64 << 20


class SideRequests:
    """The side inputs of a stage.

    Elements are as the harness encodes them, so chunks go to it as they are.

    Args:
        edges: by transform and tag.
        open_content: the content of an edge; None if it is empty.
    """

    def __init__(
        self,
        edges: Mapping[tuple[str, str], EdgeId],
        open_content: Callable[[int], Any],
    ) -> None:
        self._edges = edges
        self._open = open_content

    def read(self, key: beam_fn_api_pb2.StateKey) -> Iterator[bytes]:
        """What a state key asks for, in pieces.

        Raises:
            UnknownState: the stage has no such side input.
        """
        kind = key.WhichOneof("type")
        asked = getattr(key, str(kind))
        edge = self._edges.get((asked.transform_id, asked.side_input_id))
        if edge is None:
            message = f"{asked.transform_id!r} has no side input {asked.side_input_id!r} here"
            raise UnknownState(message)
        content = self._open(edge)
        if content is None:
            return iter(())
        window = asked.window
        if kind == "multimap_keys_side_input":
            return (key for key, _ in content.keys(window))
        if kind == "multimap_keys_values_side_input":
            return _entries(content, window)
        wanted = asked.key if kind == "multimap_side_input" else b""
        values: Iterator[bytes] = content.values(window, wanted, _elements)
        return values


def is_of_side_input(key: beam_fn_api_pb2.StateKey) -> bool:
    """Whether a state key is one of a side input."""
    return str(key.WhichOneof("type")).endswith("_side_input")


def _elements(chunk: bytes) -> list[bytes]:
    """What a chunk has, without the count of it."""
    return [chunk[_COUNT_BYTES:]]


def _entries(content: SideContent, window: bytes) -> Iterator[bytes]:
    """Keys with their values, as the coder of pairs of a key and an iterable has them."""
    for key, chunks in content.keys(window):
        few, size = [], 0
        for chunk in chunks:
            few.append(chunk)
            size += len(chunk)
            if size > _ENTRY_BYTES:
                message = "a key of the side input has too many values to be read with all keys"
                raise UnknownState(message)
        yield key + joined_chunks(few)
