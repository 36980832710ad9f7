"""Answers of the state API that may take several messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_fn_api_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bytes of one answer; what is left comes with the next one.
_ANSWER_BYTES: Final = 4 << 20


class Answers:
    """What harnesses have begun to read in a bundle; a continuation token names an iterator."""

    def __init__(self) -> None:
        self._going_on: dict[bytes, Iterator[bytes]] = {}
        self._tokens = 0

    def forget(self) -> None:
        """The bundle has ended: no answer goes on."""
        self._going_on.clear()

    def begin(self, content: Iterator[bytes]) -> beam_fn_api_pb2.StateResponse:
        """The first part of what is asked for."""
        answer, size = beam_fn_api_pb2.StateGetResponse(), 0
        parts = []
        for part in content:
            parts.append(part)
            size += len(part)
            if size >= _ANSWER_BYTES:
                self._tokens += 1
                answer.continuation_token = b"%d" % self._tokens
                self._going_on[answer.continuation_token] = content
                break
        answer.data = b"".join(parts)
        return beam_fn_api_pb2.StateResponse(get=answer)

    def go_on(self, token: bytes) -> beam_fn_api_pb2.StateResponse:
        """The next part."""
        content = self._going_on.pop(token, None)
        if content is None:
            return beam_fn_api_pb2.StateResponse(error="the continuation token is unknown")
        return self.begin(content)
