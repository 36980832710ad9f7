"""Reads one payload that a client has sent; says whose it is if it cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from sparkdrain.errors import Malformed

if TYPE_CHECKING:
    from typing import Any

M = TypeVar("M", bound=Message)


def parsed(kind: type[M], payload: bytes, owner: str, urn: str) -> M:
    """The message in a payload.

    Args:
        kind: which message the URN stands for.
        payload: as the client has sent it.
        owner: what has the payload, for the error: "The transform 'Double'".
        urn: says what the payload is.

    Raises:
        Malformed: the payload is no such message.
    """
    message: Any = kind()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        text = (
            f"{owner} ({urn}) has a payload that cannot be read as {kind.DESCRIPTOR.name}. Make "
            "the pipeline anew with its SDK, and submit it again. If the SDK made it like this, "
            "use a release of the SDK that this runner supports."
        )
        raise Malformed(text) from error
    found: M = message
    return found
