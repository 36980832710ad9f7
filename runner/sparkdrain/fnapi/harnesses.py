"""The SDK harnesses of this process: one for each job and environment, kept between bundles."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import threading
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkdrain import redaction
from sparkdrain.fnapi.errors import HarnessLost, HarnessNotStarted
from sparkdrain.fnapi.harness_job import HarnessJob
from sparkdrain.fnapi.launch import life_of
from sparkdrain.fnapi.provision import fetched, provision_info
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.spare_worker import SpareWorkers
from sparkdrain.fnapi.worker import SdkWorker

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_runner_api_pb2

_START_SECONDS: Final = 300.0
# A job's next level, or a stream's next round, begins sooner.
_IDLE_SECONDS: Final = 20.0


@dataclass(slots=True)
class _Kept:
    """A harness that runs, and how many stages use it."""

    worker: SdkWorker
    folder: Path
    users: int = 0
    has_begun: bool = False
    idle: threading.Timer | None = None


class Harnesses:
    """Starts harnesses, lends them to stages, and ends those that no stage has used for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], _Kept] = {}
        # Of the jobs that have harnesses here, or had some and are not over: the environments of
        # these, by payload.
        self._used: dict[str, dict[bytes, beam_runner_api_pb2.Environment]] = {}
        self._ending: list[tuple[str, threading.Thread]] = []
        self._services: SdkServices | None = None
        self._spares: SpareWorkers | None = None

    def lend(
        self,
        job: HarnessJob,
        id_: str,
        environment: beam_runner_api_pb2.Environment,
        *,
        ahead: bool = True,
    ) -> SdkWorker:
        """A harness; ``await_connection`` before it gets work.

        Args:
            ahead: whether to start it now; else it is started when there is work.

        Raises:
            HarnessNotStarted: it could not be started; says what to do.
        """
        key = job.id, id_
        with self._lock:
            for other in [other for other in self._kept if other[0] != job.id]:
                if not self._kept[other].users:
                    self._end(other)
            kept = self._kept.get(key)
            if kept is not None and kept.worker.is_lost:
                self._end(key)
                kept = None
            if kept is None:
                kept = self._kept[key] = self._make(job, environment)
                if job.id not in self._used:
                    self._used[job.id] = {}
                    job.when_over(partial(self._end_job, job.id))
                self._used[job.id][environment.payload] = environment
            if ahead:
                self._begin(kept)
            if kept.idle is not None:
                kept.idle.cancel()
            kept.users += 1
            return kept.worker

    def await_connection(self, worker: SdkWorker) -> None:
        """Wait until a harness can work. Other stages may lend theirs meanwhile.

        Raises:
            HarnessNotStarted: it has ended, or has not connected in time; says what to do.
        """
        if worker.is_connected:
            return
        with self._lock:
            kept = next(kept for kept in self._kept.values() if kept.worker is worker)
            self._begin(kept)
        life = worker.life
        try:
            is_connected = worker.await_connection(_START_SECONDS)
        except HarnessLost as error:
            message = f"{life.how_it_ended()}\nCorrect --environment_config, or what it runs."
            raise HarnessNotStarted(message) from error
        if not is_connected:
            worker.is_lost = True
            message = (
                f"The SDK harness of the environment has started, but has not connected to "
                f"{life.endpoint} within {_START_SECONDS:.0f} s. Look at what it writes, and "
                "whether it can reach this address."
            )
            raise HarnessNotStarted(message)

    def give_back(self, worker: SdkWorker, *, keep: bool = True) -> None:
        """A stage no longer uses a harness; one that is lost is ended.

        Args:
            keep: whether the job will need it again; else it ends when its last user is done,
                while the job goes on, and at the latest with the job.
        """
        with self._lock:
            for key, kept in list(self._kept.items()):
                if kept.worker is worker:
                    kept.users -= 1
                    if worker.is_lost:
                        self._end(key)
                    elif not keep and not kept.users:
                        self._let_end(key)
                    elif not kept.users:
                        kept.idle = threading.Timer(_IDLE_SECONDS, self._end_idle, (key, worker))
                        kept.idle.daemon = True
                        kept.idle.start()

    def close(self) -> None:
        """End all of them."""
        self._await_ends()
        with self._lock:
            for key in list(self._kept):
                self._end(key)
            if self._spares is not None:
                self._spares.close()
                self._spares = None
            if self._services is not None:
                self._services.stop()
                self._services = None

    def _make(self, job: HarnessJob, environment: beam_runner_api_pb2.Environment) -> _Kept:
        # What harnesses log goes to this process's log, too.
        redaction.remember(job.options)
        services, spares = self._serving()
        spare = spares.take(environment, job.id)
        files = dict(fetched(dependency) for dependency in environment.dependencies)
        found = {name: path for name in files if (path := job.staged(name)) is not None}
        if spare is None:
            folder = Path(tempfile.mkdtemp(dir=services.home))
            try:
                life = life_of(environment, services, folder, job, found)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            kept = _Kept(SdkWorker(secrets.token_hex(16), life), folder)
        else:
            kept = _Kept(SdkWorker(spare.worker_id, spare.life), spare.folder, has_begun=True)
        worker = kept.worker
        try:
            info = provision_info(
                worker.id, worker.life.endpoint, job.options, [files[name] for name in found]
            )
        except BaseException:
            self._stop(kept)
            raise
        by_payload = {files[name].type_payload: path for name, path in found.items()}
        services.admit(Admitted(worker, info, by_payload, job.log))
        return kept

    def _serving(self) -> tuple[SdkServices, SpareWorkers]:
        if self._services is None or self._spares is None:
            self._services = SdkServices()
            self._spares = SpareWorkers(self._services, HarnessJob("", {}))
        return self._services, self._spares

    def _begin(self, kept: _Kept) -> None:
        if kept.has_begun:
            return
        kept.has_begun = True
        try:
            kept.worker.life.start(kept.worker.id)
        except BaseException:
            kept.worker.is_lost = True
            raise

    def _end_job(self, job: str) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] == job]:
                self._end(key)
        self._await_ends(job)
        with self._lock:
            for environment in self._used.pop(job, {}).values():
                if self._spares is not None:
                    self._spares.keep(environment)

    def _end_idle(self, key: tuple[str, str], worker: SdkWorker) -> None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.worker is worker and not kept.users:
                self._end(key)

    def _end(self, key: tuple[str, str]) -> None:
        self._stop(self._kept.pop(key))

    def _let_end(self, key: tuple[str, str]) -> None:
        # A process takes a third of a second to end: it is not the slot that waits for that.
        ending = threading.Thread(target=self._stop, args=[self._kept.pop(key)], daemon=True)
        self._ending.append((key[0], ending))
        ending.start()

    def _await_ends(self, job: str | None = None) -> None:
        with self._lock:
            ending = [(of, thread) for of, thread in self._ending if job in {None, of}]
            self._ending = [each for each in self._ending if each not in ending]
        for _, thread in ending:
            thread.join()

    def _stop(self, kept: _Kept) -> None:
        if kept.idle is not None:
            kept.idle.cancel()
        kept.worker.close()
        # Who has not connected has nothing to tear down.
        kept.worker.life.stop(at_once=not kept.worker.is_connected)
        if self._services is not None:
            self._services.dismiss(kept.worker)
        shutil.rmtree(kept.folder, ignore_errors=True)


def harnesses() -> Harnesses:
    """The harnesses of this process; a forked process has its own."""
    return _of_process(os.getpid())


@cache
def _of_process(pid: int) -> Harnesses:
    del pid
    made = Harnesses()
    atexit.register(made.close)
    return made
