"""Groups whose values are too many bytes to be sent with their key.

The harness gets a token in place of the values, and reads them on the state channel, in pages.
Beam calls that a state-backed iterable.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

from apache_beam.portability.api import beam_fn_api_pb2

from sparkdrain.fnapi.elements import prefixed, unprefixed_end
from sparkdrain.fnapi.errors import UnknownState
from sparkdrain.shuffle.values import EncodedValues, joined_values

_COUNT: Final = struct.Struct(">i")
# No number of values, and no value: the rest, which is all, is in the state of a token.
_IN_STATE: Final = _COUNT.pack(-1) + b"\xff" * 9 + b"\x01"
# Bytes of one answer. A page has whole values, one at least.
_PAGE_BYTES: Final = 1 << 20
# What a bundle may hold: the groups that it has had are kept until it ends.
_HELD_BYTES: Final = 64 << 20
_HELD_GROUPS: Final = 128


class LargeGroups:
    """Keeps the chunks of large groups until the bundle ends, and reads pages of them.

    What is on disk stays there. A continuation token is a place in the group, so that a harness
    may go on from it as often as it likes, as caches of harnesses do.

    Args:
        are_in_state: whether a harness may get a token in place of values. Else all values of a
            group are sent with its key.
    """

    def __init__(self, *, are_in_state: bool = True) -> None:
        self.are_in_state = are_in_state
        self._name = uuid.uuid4().hex
        self._number = 0
        self._held: dict[bytes, list[Any]] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the bundle is to end before further groups are sent."""
        return self._bytes >= _HELD_BYTES or len(self._held) >= _HELD_GROUPS

    def encode(self, values: Any) -> bytes:
        """The values of a key, as Beam's coder for iterables writes them."""
        if not (self.are_in_state and isinstance(values, EncodedValues)):
            return joined_values(values)
        self._number += 1
        # Caches of harnesses may outlive a bundle, so no two groups have one token.
        token = f"{self._name}-{self._number}".encode()
        self._held[token] = values.chunks
        self._bytes += sum(len(chunk) for chunk in values.chunks if type(chunk) is bytes)
        return _IN_STATE + prefixed(token)

    def read(self, token: bytes, continuation: bytes) -> beam_fn_api_pb2.StateResponse:
        """Values of a group, from where the last answer has ended.

        Raises:
            UnknownState: the bundle has no such group.
        """
        chunks = self._held.get(token)
        if chunks is None:
            message = f"no group of this bundle has the token {token!r}"
            raise UnknownState(message)
        data, following = page_of(chunks, _begin_of(continuation, chunks))
        answer = beam_fn_api_pb2.StateGetResponse(data=data)
        if following is not None:
            answer.continuation_token = b"%d.%d" % following
        return beam_fn_api_pb2.StateResponse(get=answer)

    def forget(self) -> None:
        """The bundle has ended: nothing of it is read any more."""
        self._held = {}
        self._bytes = 0


def page_of(
    chunks: list[Any], begin: tuple[int, int], page_bytes: int = _PAGE_BYTES
) -> tuple[bytes, tuple[int, int] | None]:
    """Values of some chunks that are together as large as a page, or one that is larger.

    Chunks that fit into a page come whole: no value of them is looked at.

    Args:
        begin: where the values begin: the number of a chunk, and a byte of it.

    Returns:
        The values, and where the next ones begin; None if there are none.
    """
    number, start = begin
    parts: list[bytes] = []
    size = 0
    while number < len(chunks):
        chunk = chunks[number]
        rest = len(chunk) - start
        if size + rest > page_bytes:
            if not size:
                parts.append(_whole_values(chunk, start, page_bytes))
                start += len(parts[-1])
                if start == len(chunk):
                    number, start = number + 1, _COUNT.size
            break
        parts.append(_part(chunk, start, rest))
        size += rest
        number, start = number + 1, _COUNT.size
    return b"".join(parts), (number, start) if number < len(chunks) else None


def _whole_values(chunk: Any, start: int, most: int) -> bytes:
    """As many whole values of a chunk as fit into some bytes, or one."""
    data = _part(chunk, start, most)
    end = following = 0
    while following <= len(data):
        end = following
        following = unprefixed_end(data, end)
    return data[:end] if end else _part(chunk, start, following)


def _part(chunk: Any, start: int, size: int) -> bytes:
    part: bytes
    part = chunk[start : start + size] if type(chunk) is bytes else chunk.load(size, start)
    return part


def _begin_of(continuation: bytes, chunks: list[Any]) -> tuple[int, int]:
    if not continuation:
        return 0, _COUNT.size
    try:
        number, start = map(int, continuation.split(b"."))
        if not (0 <= number < len(chunks) and _COUNT.size <= start < len(chunks[number])):
            raise ValueError(continuation)
    except ValueError as error:
        message = f"no group goes on at {continuation!r}"
        raise UnknownState(message) from error
    return number, start
