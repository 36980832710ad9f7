"""The jobs as programs of other SDKs: built once, and submitted to a Job service."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.peers.fetch import PeerMissing
from benchmarks.peers.servers import boot_of_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.environments.ways import Language, Where
    from benchmarks.jobs import Job
    from benchmarks.jobs.work import Work

_HERE: Final = Path(__file__).parent
_INTEGRATION: Final = _HERE.parents[1] / "integration"
_HARNESS: Final = "org.apache.beam.fn.harness.FnHarness"
_LOOK_SECONDS: Final = 0.02
_BUILD_SECONDS: Final = 1200


def build(language: Language, cache: Path) -> None:
    """Make the program, unless it is there in this version.

    Raises:
        PeerMissing: what it is made with is not here.
    """
    home = cache / language
    sources = sorted(path for path in (_HERE / language).iterdir() if path.is_file())
    recipe = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    mark = home / "complete"
    if mark.exists() and mark.read_text(encoding="utf-8") == recipe:
        return
    home.mkdir(parents=True, exist_ok=True)
    print(f"building the jobs in {language} (once)", file=sys.stderr, flush=True)
    if language == "go":
        _call(["go", "build", "-o", str(home / "jobs"), "."], _HERE / "go")
    else:
        # It fetches the jars of Beam, too.
        script = "import sys, java_program as j; j.compiled(j.Path(sys.argv[1]), sys.argv[2])"
        _call([sys.executable, "-c", script, str(home), str(_HERE / "java" / "Jobs")])
        path = "import os, java_program as j; print(os.pathsep.join(map(str, j.class_path())))"
        said = _call([sys.executable, "-c", path])
        (home / "path").write_text(f"{home / 'program.jar'}{os.pathsep}{said.split()[-1]}")
    mark.write_text(recipe, encoding="utf-8")


def _call(command: list[str], folder: Path = _INTEGRATION) -> str:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{error}: {str(getattr(error, 'output', ''))[-600:]}"
        raise PeerMissing(reason) from error


def harness_command(language: Language, home: Path) -> list[str]:
    """What starts a harness; see `boot.py`."""
    if language == "java":
        return ["java", "-cp", (home / "path").read_text(), _HARNESS]
    known = ["--id", "{id}", "--logging_endpoint", "{logging}", "--control_endpoint", "{control}"]
    options = ["--semi_persist_dir", tempfile.gettempdir(), "--options", "{}"]
    return [str(home / "jobs"), "--worker", *known, *options]


def submit(
    language: Language, where: Where, home: Path, endpoint: str, directory: Path
) -> Callable[[Job, Work], float]:
    """What runs a job: the seconds from the submission until the server says that it is over.

    Clients ask the server only now and then whether a job is over, so this process asks, too.

    Args:
        language: of the program.
        where: its code runs.
        home: of the program.
        endpoint: of the Job service.
        directory: for files.
    """
    boot = boot_of_worker(directory, harness_command(language, home))
    flags = _environment(language, where, boot)

    def run(job: Job, work: Work) -> float:
        options = [f"--job={job.name}", f"--elements={work.n}", f"--keys={work.keys}"]
        options += [f"--out={work.out}", *flags]
        if language == "java":
            command = ["java", "-cp", (home / "path").read_text(), "Jobs"]
            command += ["--runner=PortableRunner", f"--jobEndpoint={endpoint}"]
        else:
            command = [str(home / "jobs"), f"--endpoint={endpoint}"]
            command += [f"--worker_binary={home / 'jobs'}"]
        return _timed([*command, *options], endpoint, work.out / "client.log")

    return run


def _environment(language: Language, where: Where, command: Path) -> list[str]:
    if where == "staged":
        return []
    names = {
        "java": ("defaultEnvironmentType", "defaultEnvironmentConfig"),
        "go": ("environment_type", "environment_config"),
    }
    kind, config = names[language]
    if where == "loopback":
        return [f"--{kind}=LOOPBACK"]
    return [f"--{kind}=PROCESS", f'--{config}={{"command": "{command}"}}']


def _timed(command: list[str], endpoint: str, log: Path) -> float:
    # The Python of the session may have no Spark, but has Beam.
    import grpc  # noqa: PLC0415
    from apache_beam.portability.api import beam_job_api_pb2 as api  # noqa: PLC0415
    from apache_beam.portability.api import beam_job_api_pb2_grpc  # noqa: PLC0415

    over = (api.JobState.DONE, api.JobState.FAILED, api.JobState.CANCELLED)
    with grpc.insecure_channel(endpoint) as channel, log.open("wb") as out:
        jobs = beam_job_api_pb2_grpc.JobServiceStub(channel)

        def ended() -> dict[str, Any]:
            infos = jobs.GetJobs(api.GetJobsRequest()).job_info
            return {info.job_id: info.state for info in infos if info.state in over}

        before, now = ended(), 0.0
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as client:
            while not now:
                if ended().keys() - before.keys():
                    now = time.time()
                elif client.poll() is not None:
                    break
                time.sleep(_LOOK_SECONDS)
            client.wait()
    said = log.read_text(errors="replace")
    if client.returncode or not now:
        msg = f"the client ended with {client.returncode}: {said[-1500:]}"
        raise RuntimeError(msg)
    began = next(line.split()[1] for line in said.splitlines() if line.startswith("began "))
    return now - int(began) / 1000
