"""Answers of the state API that may take several messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_fn_api_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Bytes of one answer; what is left comes with the next one.
_ANSWER_BYTES: Final = 4 << 20


class Answers:
    """What harnesses have begun to read in a bundle; a continuation token names what is left.

    An SDK may keep the first part, with its token, for later bundles, and ask for the next part
    again. So a token also has the number of bytes before that part.
    """

    def __init__(self) -> None:
        self._going_on: dict[bytes, Iterator[bytes]] = {}
        self._tokens = 0

    def forget(self) -> None:
        """The bundle has ended: what is left is read anew if it is asked for."""
        self._going_on.clear()

    def part(
        self, token: bytes, read: Callable[[], Iterator[bytes]]
    ) -> beam_fn_api_pb2.StateResponse:
        """The part that a token names.

        Args:
            token: b"" for the first part.
            read: begins to read what is asked for.
        """
        before = 0
        content = self._going_on.pop(token, None)
        if token:
            try:
                before = int(token.partition(b".")[2])
            except ValueError:
                return beam_fn_api_pb2.StateResponse(error="the continuation token is unknown")
        if content is None:
            content = _after(before, read()) if before else read()
        answer, size, parts = beam_fn_api_pb2.StateGetResponse(), 0, []
        for piece in content:
            parts.append(piece)
            size += len(piece)
            if size >= _ANSWER_BYTES:
                self._tokens += 1
                answer.continuation_token = b"%d.%d" % (self._tokens, before + size)
                self._going_on[answer.continuation_token] = content
                break
        answer.data = b"".join(parts)
        return beam_fn_api_pb2.StateResponse(get=answer)


def _after(before: int, content: Iterator[bytes]) -> Iterator[bytes]:
    """What is left of pieces without so many bytes."""
    for piece in content:
        if before >= len(piece):
            before -= len(piece)
        else:
            yield piece[before:] if before else piece
            before = 0
