"""Keeps those short who reach a gRPC listener and may not use it.

A stranger has no thread: a call that shows nothing is refused before its message is read. A
connection that carries no call is closed in time, and a listener has only so many connections.
"""

from __future__ import annotations

import os
import pwd
import threading
from typing import TYPE_CHECKING, Any, Final

import grpc
from typing_extensions import override

from sparkdrain.peers import users_at

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

_MEET_SECONDS: Final = 5
_IDLE_SECONDS: Final = 10
_CALL_SECONDS: Final = 5.0
_MOST_CALLS: Final = 16
_NO_MESSAGE: Final = "the call has no message"
OTHER_IMAGE: Final = (
    "An image whose user has the number of a user of the executor's machine needs another number."
)
"""What to do about who is no ``is_own_or_of_a_container``."""


def short_stay(
    most: int, meet_seconds: int = _MEET_SECONDS, idle_seconds: int = _IDLE_SECONDS
) -> tuple[tuple[str, int], ...]:
    """Options of a server: for how long a connection without a call stays.

    Args:
        most: connections at a time; a client that comes when there are so many has to try again.
        meet_seconds: how long the first words of a connection may take.
        idle_seconds: how long a connection may have no call.
    """
    return (
        ("grpc.server_handshake_timeout_ms", meet_seconds * 1000),
        ("grpc.http2.settings_timeout", meet_seconds * 1000),
        ("grpc.max_connection_idle_ms", idle_seconds * 1000),
        ("grpc.max_allowed_incoming_connections", most),
    )


def is_own(user: int) -> bool:
    """Whether a user is this process's, or root, who can do everything anyway."""
    return user in {0, os.geteuid()}


def is_own_or_of_a_container(user: int) -> bool:
    """Whether no other user of this machine has this id; a container may have users of its own."""
    if is_own(user):
        return True
    try:
        pwd.getpwuid(user)
    except KeyError:
        return True
    return False


def refusal(peer: str, ports: Container[int], is_friend: Callable[[int], bool], remedy: str) -> str:
    """Why who has connected may not come in; "" if they may, or if the system does not tell.

    Args:
        peer: the other end as gRPC writes it.
        ports: TCP ports of the listeners.
        is_friend: whether a user may come in, by id.
        remedy: what to do, for who is refused.
    """
    users = users_at(peer, ports)
    if users is None or (users and all(map(is_friend, users))):
        return ""
    who = " and ".join(map(str, users)) or "unknown"
    return (
        f"The user {who} of this machine has connected, and this listener is for the user "
        f"{os.geteuid()}. {remedy}"
    )


class AskForUser(grpc.ServerInterceptor):
    """Lets in who runs as a certain user of this machine; needs a listener that is loopback only.

    Where the system does not tell who has connected, everybody is let in; Linux tells.

    Args:
        ports, is_friend, remedy: see ``refusal``.
        probe: a call that everybody may make.
    """

    def __init__(
        self,
        ports: Container[int],
        is_friend: Callable[[int], bool],
        remedy: str,
        probe: str = "",
    ) -> None:
        self._ports = ports
        self._is_friend = is_friend
        self._remedy = remedy
        self._probe = probe
        self._probes = OpenCalls()

    @override
    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        if details.method == self._probe:
            return self._probes.handler(handler)
        return _asking_first(handler, self._ask)

    def _ask(self, context: grpc.ServicerContext) -> None:
        if why := refusal(context.peer(), self._ports, self._is_friend, self._remedy):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, why)


def _asking_first(handler: Any, ask: Callable[[grpc.ServicerContext], None]) -> Any:
    """A handler of the same calls that asks before it reads a message."""

    def asking(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        ask(context)
        if handler.request_streaming:
            return serve(requests, context)
        for request in requests:
            return serve(request, context)
        return context.abort(grpc.StatusCode.INVALID_ARGUMENT, _NO_MESSAGE)

    if handler.response_streaming:
        serve = handler.unary_stream or handler.stream_stream
        make = grpc.stream_stream_rpc_method_handler
    else:
        serve = handler.unary_unary or handler.stream_unary
        make = grpc.stream_unary_rpc_method_handler
    return make(asking, handler.request_deserializer, handler.response_serializer)


def refusing(code: grpc.StatusCode, why: str) -> Any:
    """A handler that refuses a call of any kind, and reads nothing of it."""

    def refuse(_requests: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, why)

    # gRPC would have a thread wait for the message of a call that it thinks has just one.
    return grpc.stream_stream_rpc_method_handler(refuse)


class OpenCalls:
    """Serves some calls to every client: a few at a time, and each for a short time.

    Args:
        seconds: how long the message of a call may take.
        most: calls at a time; more are refused.
    """

    def __init__(self, seconds: float = _CALL_SECONDS, most: int = _MOST_CALLS) -> None:
        self._seconds = seconds
        self._room = threading.BoundedSemaphore(most)

    def handler(self, served: Any) -> Any:
        """What gRPC is given in place of the handler of a call with one message and one answer."""

        def serve(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            if not self._room.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls at a time")
            # The end of the call ends the wait for its message.
            late = threading.Timer(self._seconds, context.cancel)
            try:
                late.start()
                for request in requests:
                    late.cancel()
                    return served.unary_unary(request, context)
                return context.abort(grpc.StatusCode.INVALID_ARGUMENT, _NO_MESSAGE)
            finally:
                late.cancel()
                self._room.release()

        return grpc.stream_unary_rpc_method_handler(
            serve, served.request_deserializer, served.response_serializer
        )
