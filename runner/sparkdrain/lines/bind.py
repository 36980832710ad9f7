"""What the listeners of a job bind to."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sparkdrain.lines.certificate import Certificate
    from sparkdrain.lines.endpoint import Address

# Tasks come in crowds.
_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class TcpBind:
    """An address of this machine; the system chooses a port.

    Attributes:
        host: the name or address at which other machines reach this one.
        interface: the address to listen at.
        certificate: if lines are encrypted.
    """

    host: str
    interface: str
    certificate: Certificate | None = None

    def listen(self) -> tuple[socket.socket, Address]:
        """A listening socket, and what others connect to.

        Raises:
            OSError: nothing can listen there.
        """
        listener = socket.create_server((self.interface, 0), backlog=_BACKLOG)
        return listener, (self.host, listener.getsockname()[1])


@dataclass(frozen=True, slots=True)
class UnixBind:
    """A folder of this machine, which no other user may enter; each listener gets a file in it."""

    folder: str

    def listen(self) -> tuple[socket.socket, Address]:
        """A listening socket, and what others connect to. Raises as ``TcpBind.listen`` does."""
        path = os.path.join(self.folder, f"{secrets.token_hex(8)}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener, path


Bind: TypeAlias = TcpBind | UnixBind
