"""Reads what the JVM serves to the driver on a socket."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pyspark  # noqa: F401 - whole before a part of it: see the package
from pyspark.serializers import NoOpSerializer

try:
    from pyspark.util import _load_from_socket
except ImportError:  # Spark 3.5
    from pyspark.rdd import _load_from_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


def records_from(served: Any) -> Iterator[bytes]:
    """The records that the JVM serves.

    Args:
        served: what the JVM says of the socket: a port or a path, and a secret.
    """
    with _held(_load_from_socket(served, NoOpSerializer())) as records:
        yield from records


def _held(loaded: Any) -> AbstractContextManager[Iterator[bytes]]:
    """What PySpark reads from a socket, as a context that closes the socket.

    PySpark 4.2 and later give such a context. Earlier ones give an iterator, which closes the
    socket when it is collected.
    """
    return loaded if isinstance(loaded, AbstractContextManager) else nullcontext(loaded)
