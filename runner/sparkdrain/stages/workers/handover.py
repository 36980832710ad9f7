"""How a process that Spark has started hands its place to one that has everything imported.

Imports next to nothing: it is in the way of both.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STREAMS: Final = (0, 1, 2)

NURSERY_VARIABLE: Final = "SPARKDRAIN_NURSERY"
"""Where the nursery listens, if there is one."""
PYSPARK_VARIABLE: Final = "SPARKDRAIN_PYSPARK"
"""The version of the program's PySpark, in the environment of its workers on a cluster."""

_LENGTH_BYTES: Final = 4
_FOR_TASKS: Final = frozenset(
    {"SPARKDRAIN_SESSION", "SPARKDRAIN_CLASSES", "SPARKDRAIN_STREAMING", NURSERY_VARIABLE}
)
_OF_THE_SHELL: Final = frozenset({"PWD", "OLDPWD", "SHLVL"})
# What Spark sets for its Python processes, and what its scripts set for it. PYTHONPATH counts as
# the path that was made of it.
_OF_SPARK: Final = ("SPARK_", "PYSPARK_", "PYTHON_", "_", "PYTHONPATH")
_CODE: Final = (".py", ".pyc", ".so")


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a Python process apart from another one that runs the same interpreter.

    Attributes:
        argv: the command line, the program first.
    """

    argv: list[str]
    directory: str
    path: list[str]
    environ: dict[str, str]

    @staticmethod
    def of_this_process() -> Identity:
        """As it is now."""
        return Identity(list(sys.argv), os.getcwd(), list(sys.path), dict(os.environ))

    def assume(self, streams: Sequence[int]) -> None:
        """Make this process that one, with ``streams`` as its standard input, output and error."""
        for ours, theirs in zip(STREAMS, streams, strict=True):
            os.dup2(theirs, ours)
            os.close(theirs)
        os.chdir(self.directory)
        os.environ.clear()
        os.environ.update(self.environ)
        sys.argv[:] = self.argv
        sys.path[:] = self.path


def import_alike(one: Identity, other: Identity, pyspark: str) -> bool:
    """Whether modules that ``one`` has imported are what ``other`` would have imported.

    They look in the same places in the same order, but for those that cannot matter, and no
    variable differs that a module may have looked at.

    Args:
        one: a process.
        other: another process, of the same interpreter.
        pyspark: the directory of the package that ``one`` has imported. Spark puts files in it on
            its daemon's path, with the same code, and by their real names: a virtual environment
            may be reached by a link.
    """
    return (
        one.directory == other.directory
        and list(_module_folders(one.path, pyspark)) == list(_module_folders(other.path, pyspark))
        and _heeded(one.environ) == _heeded(other.environ)
    )


def _module_folders(path: Sequence[str], pyspark: str) -> Iterator[str]:
    spark = os.path.join(os.path.realpath(pyspark), "")
    for folder in dict.fromkeys(map(os.path.realpath, path)):
        if not folder.startswith(spark) and _may_hold_modules(folder):
            yield folder


def _may_hold_modules(folder: str) -> bool:
    """Not so: the directory for files that jobs send, where these are no Python."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() or entry.name.endswith(_CODE) for entry in entries)
    except NotADirectoryError:
        return True
    except OSError:
        return False


def _heeded(environ: Mapping[str, str]) -> dict[str, str]:
    ignored = _FOR_TASKS | _OF_THE_SHELL
    return {
        name: value
        for name, value in environ.items()
        if name not in ignored and not name.startswith(_OF_SPARK)
    }


def send(connection: socket.socket, identity: Identity) -> None:
    """Offer ``identity`` and the standard streams of this process."""
    text = json.dumps(asdict(identity)).encode("ascii")
    socket.send_fds(connection, [len(text).to_bytes(_LENGTH_BYTES, "big")], STREAMS)
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[Identity, list[int]]:
    """What ``send`` has offered; the streams are ours to close.

    Raises:
        EOFError: the other side has gone away.
        OSError: it does not go on.
    """
    start, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, len(STREAMS))
    try:
        start += read(connection, _LENGTH_BYTES - len(start))
        fields: dict[str, Any] = json.loads(read(connection, int.from_bytes(start, "big")))
        return Identity(**fields), streams
    except BaseException:
        close_all(streams)
        raise


def read(connection: socket.socket, size: int) -> bytes:
    """Exactly ``size`` bytes.

    Raises:
        EOFError: the other side has gone away.
    """
    pieces = []
    while size:
        pieces.append(connection.recv(size))
        if not pieces[-1]:
            raise EOFError
        size -= len(pieces[-1])
    return b"".join(pieces)


def close_all(descriptors: Sequence[int]) -> None:
    """Close them."""
    for descriptor in descriptors:
        os.close(descriptor)
