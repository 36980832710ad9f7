"""Daemons that user code of a batch job has started end with that job, and no others do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import sparkdrain
from sparkdrain.lines.server import UnixBind
from sparkdrain.stages.telling.job_over import JobOver
from sparkdrain.stages.workers import worker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a process adopt orphans"
)

SOURCES = Path(sparkdrain.__file__).parent.parent
DAEMON = """
import os, signal, subprocess, sys
from sparkdrain.hosts.orphans import adopt_orphans, end_orphans
from sparkdrain.lines.line import Endpoint
from sparkdrain.stages.workers.worker import Strays

def start():
    "A process whose parent has ended, with a session of its own and a child; its id."
    command = "setsid sh -c 'sleep 600 & wait' >/dev/null & echo $!"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()

# As Spark's daemon does.
adopt_orphans()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    strays = Strays()
    started = [start()]
    for job in sys.argv[1:]:
        address, key = job.split("=")
        with strays.of(job, Endpoint(address, bytes.fromhex(key))):
            started.append(start())
    print(*started, flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
end_orphans()
"""


def test_they_end_when_their_job_does_and_what_others_have_started_stays(tmp_path):
    jobs = [JobOver(UnixBind(str(tmp_path))) for _ in range(2)]
    told = [f"{job.endpoint.address}={job.endpoint.key.hex()}" for job in jobs]
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON, *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    ) as daemon:
        of_none, *of_jobs = (psutil.Process(int(pid)) for pid in daemon.stdout.readline().split())
        for at, job in enumerate(jobs):
            wait_until(of_jobs[at].children)
            (below,) = of_jobs[at].children()
            assert of_jobs[at].ppid() == daemon.pid
            job.tell()
            assert not below.is_running()
            alive = [each.is_running() for each in (of_none, *of_jobs)]
            assert alive == [True, *(other > at for other in range(2))]
        daemon.stdin.close()
    assert not of_none.is_running()


@pytest.mark.parametrize(("of_the_job", "awaited"), [(True, 1), (None, 1), (False, 0)])
def test_an_orphan_that_calls_exec_may_be_one(monkeypatch, of_the_job, awaited):
    told = []
    monkeypatch.setattr(worker, "children_of", lambda pid: [7] if pid == os.getppid() else [])
    monkeypatch.setattr(worker, "is_of_job", lambda child, job: of_the_job)
    monkeypatch.setattr(worker, "when_over", lambda over, act: told.append(over))
    with worker.Strays().of("a", "over"):
        pass
    assert told == ["over"] * awaited
