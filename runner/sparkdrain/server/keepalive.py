"""How a server finds out that a client is gone without a word: power, cable, or a stopped machine.

TCP alone does not tell. A server that waits for a message of such a client would wait for ever. The
private sockets of drivers need no pings: the system tells each end when the other one is gone.
"""

from __future__ import annotations

from typing import Final

# A client that is gone holds a thread, and one of the server's connections, for 50 seconds. A
# network that is down for less than 20 seconds breaks no call. Firewalls and balancers forget
# connections that are silent for minutes.
_EVERY_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 20.0
# Clients in Go and Java ping every 10 seconds at most, and Beam's Python client every 20. A server
# of gRPC breaks off with clients that ping more often than every 5 minutes, if it is not told.
_APART_SECONDS: Final = 5.0


def keepalive(
    every: float = _EVERY_SECONDS, answer: float = _ANSWER_SECONDS, apart: float = _APART_SECONDS
) -> tuple[tuple[str, int], ...]:
    """Options of a server: it pings its clients, and lets clients ping it.

    A ping is answered by the client's gRPC, however busy the program is.

    Args:
        every: seconds without a word of the client after which the server pings.
        answer: seconds that the answer may take. Then the connection, and its calls, end.
        apart: seconds between two pings of a client that the server puts up with.
    """
    return (
        ("grpc.keepalive_time_ms", round(every * 1000)),
        ("grpc.keepalive_timeout_ms", round(answer * 1000)),
        # Newer releases of gRPC take this for the limit, and wait for a minute without it.
        ("grpc.http2.ping_timeout_ms", round(answer * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # no limit
        ("grpc.http2.min_ping_interval_without_data_ms", round(apart * 1000)),
    )
