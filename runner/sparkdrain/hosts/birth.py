"""How a host comes into being: forked from the Spark worker that first needs it.

The fork has what the worker has imported and prepared, and nothing else of it: the worker's
files, sockets, signals and session stay the worker's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from sparkdrain.errors import BadSetup
from sparkdrain.hosts.executor import executor_of, executor_process
from sparkdrain.hosts.host import Host
from sparkdrain.hosts.line import FromLeash, HostId, HostRecord, ToLeash
from sparkdrain.hosts.lookout import Lookout
from sparkdrain.hosts.memory_limit import MemoryLimit
from sparkdrain.hosts.orphans import HOST, WARDEN, adopt_orphans, be_called
from sparkdrain.hosts.process import has_rocksdb_threads, let_go
from sparkdrain.hosts.warden import Warden
from sparkdrain.lines.door import Door

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sparkdrain.hosts.home import Home
    from sparkdrain.hosts.service import Service
    from sparkdrain.lines.line import Address, Endpoint, Line

_READY: Final = "ready"
_ELSEWHERE: Final = "elsewhere"
_START_SECONDS: Final = 60
_REPORT_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class HostDaemon:
    """A host that is to be started, as a daemon of its own.

    Attributes:
        home: where hosts of this executor keep their files.
        leash: the driver that it belongs to.
        make_service: makes its service, given its scratch directory; called in the host.
        describe: how its exceptions are told to a task, now and later.
        keeper: finds, in the worker, a process that it must not outlive, beside the driver's.
        memory_mib: MiB of memory that it may use; 0 means that there is no limit.
    """

    id: HostId
    home: Home
    leash: Endpoint
    make_service: Callable[[Path], Service]
    describe: Callable[[BaseException], bytes]
    keeper: Callable[[], int] = executor_process
    memory_mib: int = 0

    def start(self, listener: socket.socket, scratch: Path) -> None:
        """Start the host; it listens when this returns, unless there is one elsewhere already.

        Raises:
            BadSetup: it could not be started.
        """
        self._check_worker()
        keeper = self.keeper()
        ready, done = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        child = os.fork()
        if child == 0:
            self._daemonize(listener, scratch, keeper, done)
        os.close(done)
        # Some programs have their children collected by the system.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        try:
            report = _read(ready)
        finally:
            os.close(ready)
        if report not in {_READY, _ELSEWHERE}:
            text = report or "it ended, or did not answer in time"
            message = f"The process for the state of slot {self.id.slot} did not start: {text}"
            raise BadSetup(message)

    def _check_worker(self) -> None:
        if has_rocksdb_threads():
            message = (
                f"The process for the state of slot {self.id.slot} cannot be started: the Python "
                "worker that would start it has used RocksDB for another job, and RocksDB does "
                "not survive that. Use a new Spark session, or let every task have a new worker "
                "with --spark_conf=spark.python.worker.reuse=false."
            )
            raise BadSetup(message)

    def _daemonize(
        self, listener: socket.socket, scratch: Path, keeper: int, done: int
    ) -> NoReturn:
        """In the child: daemonize. The grandchild, which no process waits for, is the warden."""
        try:
            os.setsid()
            if os.fork() == 0:
                self._run_warden(listener, scratch, keeper, done)
        except BaseException:  # noqa: BLE001 - never back into the worker's code
            traceback.print_exc()
        finally:
            os._exit(0)

    def _run_warden(self, listener: socket.socket, scratch: Path, keeper: int, done: int) -> None:
        let_go({listener.fileno(), done})
        adopt_orphans()
        be_called(WARDEN)
        # Collecting garbage would copy what is shared with the worker.
        gc.disable()
        # Until it listens to the driver, nothing else would end it.
        signal.alarm(_START_SECONDS)
        try:
            line = self._dial()
            lookout = Lookout(scratch)
            warden = Warden(line, keeper, lookout, MemoryLimit(self.id.slot, self.memory_mib))
            child = self._fork_host(listener, scratch, line, keeper, lookout)
        except Exception as error:  # noqa: BLE001 - the worker raises it
            _tell(done, str(error))
            # Now that it is told, the worker lets go of the lock.
            self.home.leave(scratch)
            return
        signal.alarm(0)
        _tell(done, _READY)
        ended = warden.wait(child)
        self.home.leave(scratch)
        with contextlib.suppress(OSError):
            line.send(ToLeash(ended=ended))

    def _fork_host(
        self,
        listener: socket.socket,
        scratch: Path,
        line: Line,
        keeper: int,
        lookout: Lookout,
    ) -> int:
        """Fork the host and make it known to the driver."""
        remote, address = _listen_at(line)
        # The host has the one end; this process never closes the other.
        lifeline, _ = os.pipe()
        child = os.fork()
        if child == 0:
            self._run_host(listener, remote, scratch, lifeline, lookout)
        record = HostRecord(
            self.id, socket.gethostname(), child, address, executor=executor_of(keeper)
        )
        listener.close()
        if remote is not None:
            remote.close()
        os.close(lifeline)
        try:
            line.send(ToLeash(record=record))
            answer = line.recv(FromLeash)
        except (EOFError, OSError):
            answer = FromLeash()
        if not answer.welcome:
            os.kill(child, signal.SIGKILL)
            raise ConnectionError("the job is over" if answer.record is None else _ELSEWHERE)
        return child

    def _dial(self) -> Line:
        try:
            return self.leash.dial()
        except Exception as error:
            message = f"this machine does not reach the driver at {self.leash}: {error!r}"
            raise ConnectionError(message) from error

    def _run_host(
        self,
        listener: socket.socket,
        remote: socket.socket | None,
        scratch: Path,
        lifeline: int,
        lookout: Lookout,
    ) -> NoReturn:
        status = 1
        try:
            os.setpgid(0, 0)
            be_called(HOST)
            kept = {listener.fileno(), lifeline, *lookout.descriptors}
            if remote is not None:
                kept.add(remote.fileno())
            let_go(kept)
            faulthandler.enable(2)
            # What the worker has imported is never garbage.
            gc.freeze()
            gc.enable()
            Host(
                listener,
                remote,
                Door(self.leash.key, certificate=self.leash.certificate),
                lifeline,
                scratch,
                self.make_service,
                self.describe,
                lookout,
            ).run()
            status = 0
        except BaseException:  # noqa: BLE001 - never back into the worker's code
            traceback.print_exc()
        finally:
            if _comes(lifeline, 0):
                # The warden was killed, and what it would do is left to be done here. Not asked
                # by getppid: a process is still a parent while its descriptors are being closed.
                self.home.leave(scratch)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(status)


def _listen_at(line: Line) -> tuple[socket.socket | None, Address | None]:
    """Listen where this machine is in the network that leads to the driver, and only there.

    A driver that listens at a Unix socket has no other machine, and no second executor. So no
    task comes from elsewhere.
    """
    family = line.connection.family
    if family == socket.AF_UNIX:
        return None, None
    here = line.connection.getsockname()[0]
    remote = socket.create_server((here, 0), family=family)
    return remote, remote.getsockname()[:2]


def _comes(pipe: int, seconds: int) -> bool:
    """Whether something, or the end, comes through a pipe in so many seconds."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def _tell(done: int, report: str) -> None:
    # Without a worker, a host is as good for the next one.
    with contextlib.suppress(OSError):
        os.write(done, report.encode(errors="replace")[:_REPORT_BYTES] or b"?")
    os.close(done)


def _read(ready: int) -> str:
    if not _comes(ready, _START_SECONDS):
        return ""
    return os.read(ready, _REPORT_BYTES).decode(errors="replace")
