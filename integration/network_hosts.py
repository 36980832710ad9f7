"""Hosts of a Spark cluster as network namespaces of this machine.

A network namespace has its own interfaces, addresses and ports, and its own loopback. What only
listens on one host's loopback cannot be reached from another one, as on real hosts.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_cluster import Addresses, ClusterHosts
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence


_OWN_FILES: Final = Path("/etc/netns")
"""``ip netns exec`` shows what is here, in a folder of a namespace, in place of files of /etc."""
# Removes namespaces and their bridge when the process that has made them closes its end or dies.
_GUARD: Final = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.stdin.buffer.read()
bridge, *names = sys.argv[1:]
for name in names:
    subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", f"/etc/netns/{name}"])
subprocess.run(["ip", "link", "delete", bridge], stderr=subprocess.DEVNULL)
"""


class Namespaces(ClusterHosts):
    """Network namespaces on a bridge; the driver's host is this machine. Needs root and ``ip``.

    Args:
        count: how many.

    Raises:
        OSError: they cannot be made here.
    """

    def __init__(self, count: int) -> None:
        number = next((n for n in range(64) if self._has_made_bridge(n)), None)
        if number is None:
            message = "this process cannot make network namespaces"
            raise OSError(message)
        self._bridge, self._net = _bridge(number), f"10.77.{number}"
        self._names = [f"{self._bridge}h{host}" for host in range(count)]
        self._guard = subprocess.Popen(
            [sys.executable, "-c", _GUARD, self._bridge, *self._names],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.driver = f"{self._net}.1"
        self.flags = (f"--spark_conf=spark.driver.host={self.driver}",)
        try:
            _ip("address", "add", f"{self.driver}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for host in range(count):
                self._make(host)
        except OSError:
            self.close()
            raise

    @override
    def address(self, number: int) -> str:
        return f"{self._net}.{number + 2}"

    @override
    def on(self, number: int, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._names[number], *command]

    @override
    def close(self) -> None:
        self._guard.communicate()

    def _make(self, host: int) -> None:
        name, outside = self._names[host], f"{self._bridge}v{host}"
        own = _OWN_FILES / name
        own.mkdir(parents=True)
        # No name server is asked: each question would wait until it is given up.
        (own / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        known = [f"{self.driver} driver"]
        known += [f"{self.address(each)} host{each}" for each in range(len(self._names))]
        here = f"127.0.0.1 localhost {socket.gethostname()}"
        (own / "hosts").write_text("\n".join([here, *known, ""]))
        _ip("netns", "add", name)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", outside, "master", self._bridge, "up")
        _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "eth0", "up")

    @staticmethod
    def _has_made_bridge(number: int) -> bool:
        """Whether a bridge of this number is ours: another process may have it."""
        try:
            _ip("link", "add", _bridge(number), "type", "bridge")
        except OSError:
            return False
        return True


def hosts(count: int) -> ClusterHosts:
    """Network namespaces if they can be had here, else addresses of this machine."""
    try:
        return Namespaces(count)
    except OSError:
        return Addresses()


def _bridge(number: int) -> str:
    return f"sparkd{number}"


def _ip(*arguments: str) -> None:
    if shutil.which("ip") is None:
        message = "there is no ip here"
        raise OSError(message)
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"ip {' '.join(arguments)} failed: {done.stderr.strip()}"
        raise OSError(message)
