"""Which user of this machine is at the other end of a TCP connection, as Linux tells."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
# A socket that is closed has no user any more: the table then names root.
_ESTABLISHED: Final = "01"


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def users_at(peer: str, ports: Container[int]) -> set[int] | None:
    """The ids of the users who may be at the other end: one, and none if it has hung up.

    Args:
        peer: the other end as gRPC writes it, as in ``ipv4:127.0.0.1:4711``.
        ports: where this end listens.

    Returns:
        None if the system does not tell, or the other end is no TCP address.
    """
    other = _address(peer)
    tables = [Path(table) for table in _TABLES if Path(table).exists()]
    if other is None or not tables:
        return None
    # Addresses of the other end may be shared by connections to several ports.
    return {
        user
        for table in tables
        for own, remote_port, user in _connections(table.read_text("ascii"))
        if own == other and remote_port in ports
    }


def _address(peer: str) -> tuple[IpAddress, int] | None:
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in {"ipv4", "ipv6"}:
        return None
    return _plain(ipaddress.ip_address(host.strip("[]").partition("%")[0])), int(port)


def _connections(table: str) -> Iterator[tuple[tuple[IpAddress, int], int, int]]:
    """The established ones: own address, the other end's port, the id of the user."""
    for line in table.splitlines()[1:]:
        _, local, remote, state, _, _, _, user, *_ = line.split()
        if state == _ESTABLISHED:
            host, _, port = local.partition(":")
            yield (_written(host), int(port, 16)), int(remote.partition(":")[2], 16), int(user)


def _written(host: str) -> IpAddress:
    """An address as the kernel writes it: words of 32 bits in the machine's order."""
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    return _plain(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))


def _plain(address: IpAddress) -> IpAddress:
    """Java reaches IPv4 by addresses of IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
