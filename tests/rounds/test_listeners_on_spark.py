"""What a running job listens at, and what its files can be reached by, as docs/security.md says."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import psutil
import pyspark
import pytest

import sparkdrain
from tests.support.listening import own_ports, processes_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SOURCES = Path(sparkdrain.__file__).parent.parent
MARK = "SPARKDRAIN_TEST_OF_LISTENERS"
DRIVER = "127.0.0.5"
WITH_SECRET = (
    "--spark_conf=spark.authenticate=true",
    "--spark_conf=spark.authenticate.secret=shared-by-driver-and-executors",
    "--spark_conf=spark.network.crypto.enabled=true",
)
TOWARDS_DRIVER = "127.0.0.1"
"""The address that a process of this machine has on its connection to the driver."""
OTHERS = 0o077
SPARKS = ("hsperfdata_", "blockmgr-", "spark-", "libleveldbjni", "liblz4", "snappy-")
"""What Spark and its JVM make, by the beginnings of their names."""

PROGRAM = """
import os, sys, time
umask, folder, *flags = sys.argv[1:]
os.umask(int(umask, 8))
import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from tests.support.restrictions import UpTo

PROCESS = '{"command": "%s -m sparkdrain.cli.main worker"}' % sys.executable
in_harness = "--in-harness" in flags
if in_harness:
    flags.remove("--in-harness")

def mark(name):
    open(os.path.join(folder, name), "w").close()

class Slow(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(UpTo())):
        while tracker.try_claim(tracker.current_restriction().start):
            mark("batch")
            while not os.path.exists(os.path.join(folder, "over")):
                time.sleep(0.1)
            return

def wait(folder):
    open(os.path.join(folder, "harness"), "w").close()
    while not os.path.exists(os.path.join(folder, "over")):
        time.sleep(0.1)

class Count(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        mark("stream")

def options(*more):
    return PipelineOptions(["--runner=SparkDrainRunner", *flags, *more])

stream = beam.Pipeline(options=options("--streaming", "--checkpoint_ms=500",
                                       "--checkpoint_dir=" + os.path.join(folder, "checkpoints"),
                                       "--state_dir=" + os.path.join(folder, "state")))
stream | PeriodicImpulse(fire_interval=0.1) | beam.WithKeys(1) | beam.ParDo(Count())
running = stream.run()
if in_harness:
    process = beam.Pipeline(options=options("--environment_type=PROCESS",
                                            "--environment_config=" + PROCESS))
    process | beam.Create([folder]) | beam.Map(wait)
    in_process = process.run()
batch = beam.Pipeline(options=options("--progress=plain"))
batch | beam.Create([1]) | beam.ParDo(Slow())
batch.run().wait_until_finish()
if in_harness:
    in_process.wait_until_finish()
running.cancel()
"""


@pytest.fixture
def temporary():
    """A folder like /tmp: every user may make files in it."""
    folder = tempfile.mkdtemp(prefix="s", dir="/tmp")
    os.chmod(folder, 0o1777)
    yield Path(folder)
    # Of the JVM, the last files go at this moment.
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def job(temporary):
    """Runs a stream and a batch in one program, and gives its processes while both are at work."""
    mark = uuid.uuid4().hex
    started = []

    def start(
        umask: str, master: str, *more: str, in_harness: bool = False
    ) -> list[psutil.Process]:
        harnesses = ["harness"] if in_harness else []
        program = temporary / "program.py"
        program.write_text(PROGRAM)
        marks = temporary / "marks"
        marks.mkdir(mode=0o755)
        conf = ("spark.driver.host", "spark.driver.bindAddress")
        flags = [
            f"--spark_master_url={master}",
            *(("--in-harness",) if in_harness else ()),
            *(f"--spark_conf={name}={DRIVER}" for name in conf),
        ]
        process = subprocess.Popen(
            [sys.executable, str(program), umask, str(marks), *flags, *more],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(SOURCES), str(SOURCES.parent)]),
                "TMPDIR": str(temporary),
                "SPARK_LOCAL_DIRS": str(temporary),
                MARK: mark,
            },
            cwd=temporary,
        )
        started.append(process)

        def at_work() -> bool:
            assert process.poll() is None, "the program has ended"
            made = [marks / name for name in ("batch", "stream", *harnesses)]
            kept = [marks.glob("checkpoints/*/manifests/*")]
            if master.startswith("local["):
                kept.append(marks.glob("state/files/*"))
            return all(path.exists() for path in made) and all(map(any, kept))

        wait_until(at_work, 300, 0.1)
        return processes_of(MARK, mark)

    yield start
    for process in started:
        (temporary / "marks" / "over").touch()
        try:
            process.wait(120)
        finally:
            process.kill()
            process.wait()


def listeners(processes: list[psutil.Process]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The addresses of TCP listeners by program, and the Unix sockets by path."""
    tcp: dict[str, set[str]] = {"java": set(), "driver": set(), "others": set()}
    unix: dict[str, set[str]] = {"java": set(), "driver": set(), "others": set()}
    for process in processes:
        try:
            ports = process.net_connections("inet")
            paths = process.net_connections("unix")
            command = process.cmdline()
        except psutil.Error:  # it has ended
            continue
        who = "java" if "java" in command[0] else "others"
        who = "driver" if any(part.endswith("program.py") for part in command) else who
        tcp[who] |= {one.laddr.ip for one in ports if one.status == psutil.CONN_LISTEN}
        unix[who] |= {one.laddr for one in paths if str(one.laddr).startswith("/")}
    return tcp, unix


def open_to_others(folder: Path) -> list[str]:
    """What other users can reach below ``folder``, with its mode; nothing in a closed folder."""
    found = []
    for path in folder.iterdir():
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:  # the job goes on
            continue
        if mode & OTHERS and not path.is_symlink():
            found.append(f"{mode:o} {path}")
            if path.is_dir():
                found += open_to_others(path)
    return found


def ours(found: list[str], temporary: Path) -> list[str]:
    """Without what Spark, Java and the test have made."""
    made = {"program.py", "marks"}
    marks = {"batch", "stream", "harness", "over"}
    kept = []
    for entry in found:
        first, *rest = Path(entry.split(" ", 1)[1]).relative_to(temporary).parts
        of_test = first in made and (not rest or rest[0] in marks)
        if not of_test and not first.startswith(SPARKS):
            kept.append(entry)
    return kept


def check_files(temporary: Path, sockets: dict[str, set[str]]) -> None:
    assert ours(open_to_others(temporary), temporary) == []
    paths = {Path(path) for found in sockets.values() for path in found}
    assert len(paths) > 5, "of Spark's Python code, of the Job service, of the driver, of hosts"
    for path in paths:
        for where in places_of(path, temporary):
            closed = [each for each in where.parents if not each.stat().st_mode & OTHERS]
            assert closed, f"other users reach {where}"


def places_of(socket: Path, temporary: Path) -> list[Path]:
    """Where a socket lies; every place where it may, if it was bound by another name.

    That of a host is bound by way of a descriptor, if its own name is too long for an address.
    """
    if socket.parent.exists():
        return [socket]
    assert socket.is_relative_to("/proc/self/fd"), f"nobody knows where {socket} is"
    found = [each for each in temporary.rglob(socket.name) if each.is_socket()]
    assert found, f"nobody knows where {socket} is"
    return found


def serves_harness(sockets: dict[str, set[str]]) -> bool:
    """Whether a slot listens for an SDK harness in a folder of its own."""
    return any("sparkdrain-own-" in path and path.endswith("/fnapi") for path in sockets["others"])


def check_local(job, temporary: Path, umask: str, *, in_harness: bool = False) -> None:
    tcp, unix = listeners(job(umask, "local[4,2]", in_harness=in_harness))
    assert tcp["driver"] == tcp["others"] == set(), "the project opens no port"
    assert tcp["java"] == {f"::ffff:{DRIVER}", "::ffff:127.0.0.1"}, "Spark's RPC, and Py4J"
    assert len([path for path in unix["driver"] if "sparkdrain-own-" in path]) >= 5
    assert serves_harness(unix) == in_harness
    check_files(temporary, unix)


def check_cluster(job, temporary: Path, umask: str, *encryption: str) -> None:
    processes = job(umask, "local-cluster[1,4,1024]", *encryption)
    tcp, unix = listeners(processes)
    assert tcp["driver"] == {DRIVER}
    assert tcp["others"] == {TOWARDS_DRIVER}, "hosts"
    check_files(temporary, unix)
    spoken = [speaks_tls(address) for address in own_ports(processes)]
    assert len(spoken) >= 6, "leash, balancer, failures, progress, ends of batch jobs, a host"
    assert set(spoken) == {bool(encryption)}


def speaks_tls(address: tuple[str, int]) -> bool:
    try:
        return "BEGIN CERTIFICATE" in ssl.get_server_certificate(address, timeout=20)
    except ssl.SSLError:
        return False


def test_a_local_job_opens_no_port_and_no_file_to_others(job, temporary):
    check_local(job, temporary, "000")


@pytest.mark.slow
@pytest.mark.parametrize("umask", ["002", "022"])
def test_a_local_job_opens_no_port_and_no_file_under_every_umask(job, temporary, umask):
    check_local(job, temporary, umask, in_harness=True)


@pytest.mark.slow
@pytest.mark.parametrize("umask", ["000", "002", "022"])
def test_a_job_on_a_cluster_listens_at_the_drivers_address_only_under_every_umask(
    job, temporary, umask
):
    check_cluster(job, temporary, umask)


def with_tls(folder: Path) -> list[str]:
    """Spark's RPC by TLS, with a key that is made here; Spark 4 has it."""
    store = folder / "keys.p12"
    make = [
        "keytool",
        "-genkeypair",
        "-alias",
        "rpc",
        "-keyalg",
        "RSA",
        "-storetype",
        "PKCS12",
        "-dname",
        "CN=rpc",
    ]
    subprocess.run([*make, "-keystore", str(store), "-storepass", "only-for-tests"], check=True)
    of_rpc = {
        "enabled": "true",
        "keyStore": str(store),
        "keyStorePassword": "only-for-tests",
        "trustStore": str(store),
        "trustStorePassword": "only-for-tests",
    }
    return [f"--spark_conf=spark.ssl.rpc.{name}={value}" for name, value in of_rpc.items()]


@pytest.mark.slow
def test_every_line_is_encrypted_if_sparks_traffic_is(job, temporary):
    check_cluster(job, temporary, "022", *WITH_SECRET)


@pytest.mark.slow
@pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 4 has TLS between its processes")
def test_every_line_is_encrypted_if_spark_speaks_tls(job, temporary, tmp_path):
    check_cluster(job, temporary, "022", *with_tls(tmp_path))
