"""Python harnesses that are started when a job is over, and wait for the next one.

Such a harness imports Beam, which takes most of its start, and asks what it is to know. It gets the
answer when there is a job, see ``SdkServices.expect``. None is started before a process has had two
jobs with the same environment, so that a program with one job leaves none behind.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.launch import life_of
from sparkdrain.fnapi.process import inherited
from sparkdrain.graph.environments import PROCESS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.fnapi.harness_job import HarnessJob
    from sparkdrain.fnapi.process import Life
    from sparkdrain.fnapi.services import SdkServices

_WAIT_SECONDS: Final = 60.0
# What a user's own command does before there is a job is not known.
_OWN_COMMANDS: Final = (("sparkdrain", "worker"), ("sparkdrain.cli.main", "worker"))


@dataclass(frozen=True, slots=True)
class SpareWorker:
    """A harness that waits.

    Attributes:
        worker_id: with which it asks.
        life: which has begun.
        folder: for what it writes.
        variables: the environment variables of this process when it started.
    """

    worker_id: str
    life: Life
    folder: Path
    variables: Mapping[str, str]


class SpareWorkers:
    """The spare harnesses of this process, one for each command.

    Not safe for threads. Its own timers are the exception.

    Args:
        services: which harnesses ask.
        job: stands for jobs to come, of which nothing is known.
    """

    def __init__(self, services: SdkServices, job: HarnessJob) -> None:
        self._services = services
        self._job = job
        self._lock = threading.Lock()
        self._waiting: dict[bytes, SpareWorker] = {}
        self._last_jobs: dict[bytes, str] = {}
        self._repeated: set[bytes] = set()

    def take(self, environment: beam_runner_api_pb2.Environment, job: str) -> SpareWorker | None:
        """The harness that waits for a job with this environment; None if there is none."""
        key = environment.payload
        if self._last_jobs.setdefault(key, job) != job:
            self._last_jobs[key] = job
            self._repeated.add(key)
        with self._lock:
            spare = self._waiting.pop(key, None)
        if spare is None or (not spare.life.how_it_ended() and spare.variables == inherited()):
            return spare
        self._end(spare)
        return None

    def keep(self, environment: beam_runner_api_pb2.Environment) -> None:
        """Have a harness wait for the next job, if there may be one that needs it."""
        key = environment.payload
        if key in self._waiting or key not in self._repeated or not _is_own(environment):
            return
        try:
            folder = Path(tempfile.mkdtemp(dir=self._services.home))
        except OSError:
            return  # it is a matter of speed only
        life = life_of(environment, self._services, folder, self._job, {})
        spare = SpareWorker(secrets.token_hex(16), life, folder, inherited())
        self._services.expect(spare.worker_id)
        try:
            life.start(spare.worker_id)
        except OSError:
            self._end(spare)
            return
        self._waiting[key] = spare
        timer = threading.Timer(_WAIT_SECONDS, self._end_if_waiting, (key, spare))
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End all of them."""
        for key, spare in list(self._waiting.items()):
            self._end_if_waiting(key, spare)

    def _end_if_waiting(self, key: bytes, spare: SpareWorker) -> None:
        with self._lock:
            if self._waiting.get(key) is not spare:
                return
            del self._waiting[key]
        self._end(spare)

    def _end(self, spare: SpareWorker) -> None:
        spare.life.stop(at_once=True)
        self._services.expect_no_more(spare.worker_id)
        shutil.rmtree(spare.folder, ignore_errors=True)


def _is_own(environment: beam_runner_api_pb2.Environment) -> bool:
    if environment.urn != PROCESS:
        return False
    process = beam_runner_api_pb2.ProcessPayload.FromString(environment.payload)
    words = shlex.split(process.command)
    return len(words) > 1 and (Path(words[-2]).name, words[-1]) in _OWN_COMMANDS
