"""A disk that loses what was not synced: a file system of its own, by FUSE, for root on Linux.

A name is on disk when its folder was synced, and the content of a file when the file was. Of all
else, a loss of power keeps any part: writes and changes of names, in any order, and torn writes. So
the disk keeps less than real file systems do, and all of what POSIX promises.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

NO_DISK: Final = "; ".join(
    reason
    for reason, holds in {
        "a disk by FUSE needs Linux": sys.platform == "linux",
        "only root may mount a disk": os.geteuid() == 0,
        "there is no /dev/fuse": os.path.exists("/dev/fuse"),
    }.items()
    if not holds
)
"""Why no such disk can be mounted here; empty if it can."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
_ROOT = 1
_MOST = 1 << 17
_LONG = 3600
_KEPT_SIZE = 8
_KEPT_MODE = 1
_NO_REPLACE = 1


@dataclass(eq=False)
class Node:
    """A file or folder: what it is now, what is on disk, and what may be.

    ``path`` is the first name that it got, or the last one by a link.
    """

    ino: int
    mode: int
    path: str = ""
    data: bytearray = field(default_factory=bytearray)
    on_disk: bytes = b""
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)
    names: dict[bytes, Node] = field(default_factory=dict)
    names_on_disk: dict[bytes, Node] = field(default_factory=dict)
    links: int = 0

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def write(self, data: bytearray, at: int, new: bytes | None) -> None:
        """``None`` makes the file as long as ``at``."""
        if new is None:
            del data[at:]
            new = b""
        data.extend(bytes(max(0, at - len(data))))
        data[at : at + len(new)] = new


class Change:
    """A change of names that is one step: some names in some folders are of other nodes."""

    def __init__(self, *names: tuple[Node, bytes, Node | None]) -> None:
        self.names = names

    def see(self) -> None:
        for folder, name, node in self.names:
            before = folder.names.pop(name, None)
            if before is not None:
                before.links -= 1
            if node is not None:
                folder.names[name] = node
                node.links += 1

    def keep(self) -> None:
        for folder, name, node in self.names:
            folder.names_on_disk.pop(name, None)
            if node is not None:
                folder.names_on_disk[name] = node


class Nothing:
    """Chance by which nothing is kept that was not synced, for ``LossyDisk.lose_power``."""

    def choice(self, of: object) -> float:
        return 0.0

    def random(self) -> float:
        return 1.0


class LossyDisk:
    """Mounted at ``path`` until ``close``.

    ``lose_power_at`` says which change ends the process ``pid``; ``lose_power`` then mounts anew
    what is left. ``fill_at`` says from which change on there is no room.

    ``kind_of`` says of the path of each change what it is part of, and ``died_at`` of which kind
    the change was that has ended the process last.
    """

    def __init__(self, path: Path, kind_of: Callable[[str], str] = lambda path: "") -> None:
        self.path = path
        self.changes = 0
        self.is_off = False
        self.died_at = ""
        self._kind_of = kind_of
        self._pid = 0
        self._last: int | None = None
        self._kind: str | None = None
        self._room: int | None = None
        self._inos = _ROOT
        self._root = Node(_ROOT, stat.S_IFDIR | 0o700)
        self._pending: list[Change] = []
        path.mkdir(exist_ok=True)
        self._mount()

    def lose_power_at(self, pid: int, change: int | None, kind: str | None = None) -> None:
        """Of the changes of a kind, or of all of them, which are counted anew; None: at none."""
        self._pid, self._last, self._kind, self.changes = pid, change, kind, 0

    def lay_down(self, folder: bytes, *files: bytes) -> None:
        """Make empty files in a new folder, which are on disk from now on."""
        place = self._new(stat.S_IFDIR | 0o700, f"/{os.fsdecode(folder)}")
        for parent, name, node in [
            (self._root, folder, place),
            *(
                (place, file, self._new(stat.S_IFREG | 0o600, f"{place.path}/{os.fsdecode(file)}"))
                for file in files
            ),
        ]:
            change = Change((parent, name, node))
            change.see()
            change.keep()

    @property
    def is_full(self) -> bool:
        return self._room is not None and self.changes > self._room

    def fill_at(self, change: int | None) -> None:
        """From so many changes on, which are counted anew, the disk takes nothing more."""
        self._room, self.changes = change, 0

    def keep_power(self) -> None:
        """Only the process has died: all is as it was."""
        self._live_on()

    def lose_power(self, rng: Random | Nothing) -> None:
        """What was not synced is kept by chance, or not."""
        self.close()
        likely = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        for change in self._pending:
            if rng.random() < likely:
                change.keep()
        self._pending.clear()
        kept: dict[Node, Node] = {}
        self._inos = 0
        self._root = self._left(self._root, "", kept, rng, likely)
        self._live_on()
        self._mount()

    def _live_on(self) -> None:
        """The next process can write before anybody says at which change it ends."""
        self.is_off, self._last = False, None

    def _left(
        self, node: Node, path: str, kept: dict[Node, Node], rng: Random | Nothing, likely: float
    ) -> Node:
        if node not in kept:
            left = kept[node] = self._new(node.mode, path)
            left.data = bytearray(node.on_disk)
            for at, new in node.writes:
                if rng.random() < likely:
                    torn = new and rng.random() < 0.3
                    node.write(left.data, at, new[: rng.randrange(len(new))] if torn else new)
            left.on_disk = bytes(left.data)
            for name, below in node.names_on_disk.items():
                to = f"{path}/{os.fsdecode(name)}"
                left.names[name] = self._left(below, to, kept, rng, likely)
                left.names[name].links += 1
            left.names_on_disk = dict(left.names)
        return kept[node]

    def _new(self, mode: int, path: str) -> Node:
        self._inos += 1
        return Node(self._inos, mode, path)

    # --- the kernel -----------------------------------------------------------------------------

    def _mount(self) -> None:
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        how = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,default_permissions"
        if _LIBC.mount(b"lossy", os.fsencode(self.path), b"fuse", 0, how.encode()):
            error = ctypes.get_errno()
            os.close(self._device)
            raise OSError(error, f"no lossy disk here: {os.strerror(error)}")
        self._nodes = {_ROOT: self._root}
        self._thread = threading.Thread(target=self._serve, args=(self._device,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        _LIBC.umount2(os.fsencode(self.path), _DETACH)
        self._thread.join(10)
        os.close(self._device)

    def _serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, _MOST + 4096)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue
                return  # it is not mounted any more
            _, opcode, unique, ino = struct.unpack_from("<IIQQ", request)
            name = _OPERATIONS.get(opcode)
            if name in {"forget", "interrupt"}:
                continue
            try:
                answer = self._answer(name, ino, request[40:])
                code = 0
            except OSError as error:
                answer, code = b"", -(error.errno or errno.EIO)
            reply = struct.pack("<IiQ", 16 + len(answer), code, unique) + answer
            try:
                os.write(device, reply)
            except OSError:
                continue  # nobody waits for it any more

    def _answer(self, name: str | None, ino: int, body: bytes) -> bytes:
        if name is None:
            raise OSError(errno.ENOSYS, "unknown")
        if name in _CHANGES:
            self._count(_changed(name, self._nodes.get(ino, self._root), body))
        if self.is_off:
            raise OSError(errno.EIO, "no power")
        if name in _NEED_ROOM and self.is_full:
            raise OSError(errno.ENOSPC, "full")
        operation: Any = getattr(self, f"_do_{name}")
        answer: bytes = operation(self._nodes.get(ino, self._root), body)
        return answer

    def _count(self, path: str) -> None:
        """Count a change, which may be the one that ends the process."""
        kind = self._kind_of(path)
        if self._last is not None and self._kind in (None, kind) and not self.is_off:
            self._last -= 1
            if self._last < 0:
                self.is_off, self.died_at = True, kind
                os.kill(self._pid, signal.SIGKILL)
        self.changes += 1

    def _entry(self, node: Node) -> bytes:
        self._nodes[node.ino] = node
        return struct.pack("<QQQQII", node.ino, 0, _LONG, _LONG, 0, 0) + self._attributes(node)

    def _attributes(self, node: Node) -> bytes:
        size = len(node.data)
        links = 2 if node.is_folder else node.links
        numbers = (node.ino, size, -(-size // 512), 0, 0, 0, 0, 0, 0)
        return struct.pack("<QQQQQQIIIIIIIIII", *numbers, node.mode, links, 0, 0, 0, 4096, 0)

    def _change(self, *names: tuple[Node, bytes, Node | None]) -> None:
        change = Change(*names)
        change.see()
        self._pending.append(change)

    # --- operations -----------------------------------------------------------------------------

    def _do_init(self, node: Node, body: bytes) -> bytes:
        ahead, big_writes, many_pages = struct.unpack_from("<I", body, 8)[0], 1 << 5, 1 << 22
        flags = big_writes | many_pages
        numbers = (7, 31, ahead, flags, 12, 9, _MOST, 1, _MOST // 4096, 0)
        return struct.pack("<IIIIHHIIHH32x", *numbers)

    def _do_lookup(self, node: Node, body: bytes) -> bytes:
        return self._entry(_in(node, body[:-1]))

    def _do_getattr(self, node: Node, body: bytes) -> bytes:
        return struct.pack("<QII", _LONG, 0, 0) + self._attributes(node)

    def _do_setattr(self, node: Node, body: bytes) -> bytes:
        valid, size, mode = (
            *struct.unpack_from("<I12xQ", body),
            struct.unpack_from("<I", body, 68)[0],
        )
        if valid & _KEPT_MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & _KEPT_SIZE:
            node.write(node.data, size, None)
            node.writes.append((size, None))
        return self._do_getattr(node, body)

    def _do_mkdir(self, node: Node, body: bytes) -> bytes:
        return self._make(node, body[8:-1], stat.S_IFDIR | struct.unpack_from("<I", body)[0])

    def _do_mknod(self, node: Node, body: bytes) -> bytes:
        return self._make(node, body[16:-1], struct.unpack_from("<I", body)[0])

    def _do_create(self, node: Node, body: bytes) -> bytes:
        mode = stat.S_IFREG | struct.unpack_from("<4xI", body)[0]
        return self._make(node, body[16:-1], mode) + struct.pack("<QII", 0, 0, 0)

    def _make(self, folder: Node, name: bytes, mode: int) -> bytes:
        if name in folder.names:
            raise OSError(errno.EEXIST, "there")
        node = self._new(mode, f"{folder.path}/{os.fsdecode(name)}")
        self._change((folder, name, node))
        return self._entry(node)

    def _do_unlink(self, node: Node, body: bytes) -> bytes:
        _in(node, body[:-1])
        self._change((node, body[:-1], None))
        return b""

    def _do_rmdir(self, node: Node, body: bytes) -> bytes:
        if _in(node, body[:-1]).names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        return self._do_unlink(node, body)

    def _do_rename(self, node: Node, body: bytes) -> bytes:
        return self._rename(node, struct.unpack_from("<Q", body)[0], body[8:], 0)

    def _do_rename2(self, node: Node, body: bytes) -> bytes:
        return self._rename(node, *struct.unpack_from("<Q", body), body[16:], body[8])

    def _rename(self, folder: Node, to: int, names: bytes, flags: int) -> bytes:
        old, new, _ = names.split(b"\0")
        target, node = self._nodes[to], _in(folder, old)
        there = target.names.get(new)
        if there is not None and flags & _NO_REPLACE:
            raise OSError(errno.EEXIST, "there")
        if there is not None and there.names:
            raise OSError(errno.ENOTEMPTY, "not empty")
        self._change((folder, old, None), (target, new, node))
        return b""

    def _do_link(self, node: Node, body: bytes) -> bytes:
        name, source = body[8:-1], self._nodes[struct.unpack_from("<Q", body)[0]]
        if name in node.names:
            raise OSError(errno.EEXIST, "there")
        self._change((node, name, source))
        source.path = f"{node.path}/{os.fsdecode(name)}"
        return self._entry(source)

    def _do_open(self, node: Node, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0)

    def _do_release(self, node: Node, body: bytes) -> bytes:
        return b""

    def _do_read(self, node: Node, body: bytes) -> bytes:
        at, size = struct.unpack_from("<8xQI", body)
        return bytes(node.data[at : at + size])

    def _do_write(self, node: Node, body: bytes) -> bytes:
        at, size = struct.unpack_from("<8xQI", body)
        data = body[40 : 40 + size]
        node.write(node.data, at, data)
        node.writes.append((at, data))
        return struct.pack("<II", size, 0)

    def _do_statfs(self, node: Node, body: bytes) -> bytes:
        return struct.pack(
            "<QQQQQIII28x", 1 << 30, 1 << 30, 1 << 30, 1 << 20, 1 << 20, 4096, 255, 4096
        )

    def _do_fsync(self, node: Node, body: bytes) -> bytes:
        node.on_disk = bytes(node.data)
        node.writes.clear()
        return b""

    def _do_fsyncdir(self, node: Node, body: bytes) -> bytes:
        for change in [*self._pending]:
            if any(folder is node for folder, _, _ in change.names):
                change.keep()
                self._pending.remove(change)
        return b""

    def _do_readdir(self, node: Node, body: bytes) -> bytes:
        start, size = struct.unpack_from("<8xQI", body)
        found = b""
        for at, (name, each) in enumerate([*node.names.items()][start:], start + 1):
            entry = struct.pack("<QQII", each.ino, at, len(name), each.mode >> 12) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found


def _changed(operation: str, node: Node, body: bytes) -> str:
    """The path of what is changed: a name in a folder, or a file."""
    start = _NAMES.get(operation)
    if start is None:
        return node.path
    return f"{node.path}/{os.fsdecode(body[start:].split(bytes(1))[0])}"


def _in(folder: Node, name: bytes) -> Node:
    if name not in folder.names:
        raise OSError(errno.ENOENT, "not there")
    return folder.names[name]


_OPERATIONS = {
    1: "lookup",
    2: "forget",
    3: "getattr",
    4: "setattr",
    8: "mknod",
    9: "mkdir",
    10: "unlink",
    11: "rmdir",
    12: "rename",
    13: "link",
    14: "open",
    15: "read",
    16: "write",
    17: "statfs",
    18: "release",
    20: "fsync",
    26: "init",
    27: "open",
    28: "readdir",
    29: "release",
    30: "fsyncdir",
    35: "create",
    36: "interrupt",
    42: "forget",
    45: "rename2",
}
_CHANGES = {
    *("setattr", "mknod", "mkdir", "unlink", "rmdir", "rename", "rename2"),
    *("link", "write", "fsync", "fsyncdir", "create"),
}
# Where the name begins that a change makes or removes in a folder.
_NAMES = {
    "mknod": 16,
    "mkdir": 8,
    "unlink": 0,
    "rmdir": 0,
    "rename": 8,
    "link": 8,
    "create": 16,
    "rename2": 16,
}
_NEED_ROOM = _CHANGES - {"setattr", "unlink", "rmdir", "fsync", "fsyncdir"}
