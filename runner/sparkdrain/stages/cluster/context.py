"""The Spark session: found if there is one, else started with what the runner needs."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext

from sparkdrain.errors import BadSetup
from sparkdrain.hosts.orphans import reap_as_init
from sparkdrain.own_folder import is_private, own_folder
from sparkdrain.redaction import SECRET_NAMES, is_secret
from sparkdrain.setup_check import NotNamed, check_java, check_python_for_spark
from sparkdrain.stages.cluster.class_data import (
    EXECUTOR_OPTIONS,
    JAVA_OPTIONS,
    class_data,
    using_class_data,
)
from sparkdrain.stages.cluster.driver_address import certificate_for
from sparkdrain.stages.cluster.jvm import Launched, launch, start_jvm
from sparkdrain.stages.cluster.masters import check_master, runs_here
from sparkdrain.stages.cluster.parking import park
from sparkdrain.stages.cluster.version_check import check_cluster, check_home, check_session
from sparkdrain.stages.spark.driver import has_jvm, spark_home
from sparkdrain.stages.spark.errors import gist
from sparkdrain.stages.spark.session import (
    active_context,
    forget,
    is_usable,
    jvm_version,
    new_context,
    silence,
)
from sparkdrain.stages.spark.versions import (
    home_version,
    knows_setting,
    pyspark_version,
    version_of_master,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkdrain.options import JobSettings
    from sparkdrain.types import SparkAsked

_LOGGER = logging.getLogger(__name__)
_LOCK = threading.Lock()

# What our own session gets beside what the user says.
_DEFAULTS = {
    # A lost shuffle file fails the job, which is then run again: Spark would re-run a part of a
    # level, whose outcome need not fit the part that was used already.
    "spark.stage.maxConsecutiveAttempts": "1",
    # A task that could not run where its slot's state is goes elsewhere after twice this time: for
    # the executor, and for the machine.
    "spark.locality.wait": "500ms",
    "spark.python.daemon.module": "sparkdrain.stages.daemon",
    # Spark's page asks no reader for a name. It shows properties, as event logs do, and would let
    # every reader end Spark jobs.
    "spark.redaction.regex": SECRET_NAMES,
    "spark.ui.killEnabled": "false",
}
# spark-submit has set these to something in every case.
_INSTEAD_OF_SHELLS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.app.name": "sparkdrain",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_DRIVER_MEMORY = ("spark.driver.memory", "2g")
# Properties that a JVM must know when it starts; the others are told to each session.
_OF_THE_JVM = ("spark.driver.", "spark.jars", "spark.files", "spark.archives")
_WITH_CONTAINERS = ("yarn", "k8s://")
_WITH_WORKERS = ("spark://", "local-cluster")
_LOCAL_FOLDERS = "spark.local.dir"
_SOCKETS = "spark.python.unix.domain.socket.enabled"
# Spark 4.1 and later have it.
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
# They print what the user will be told anyway, with the user's own exception first.
_SILENT = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.api.python.PythonRunner",
    "org.apache.spark.api.python.BasePythonRunner",
    "org.apache.spark.util.SparkUncaughtExceptionHandler",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.network",
)


class _Session:
    """The one session that this process has started, if it has."""

    context: SparkContext | None = None
    asked: tuple[object, ...] = ()
    ahead: Launched | None = None
    """A JVM that was started ahead, and that no job has asked for yet."""
    jvm: Launched | None = None
    """The JVM that this process has started last, and uses or has used."""


def launch_ahead(settings: SparkAsked) -> None:
    """Start the JVM that ``spark_context`` will need; what goes wrong will go wrong there again."""
    with _LOCK, contextlib.suppress(Exception):
        there = has_jvm() or _Session.ahead is not None
        if not there and "PYSPARK_GATEWAY_PORT" not in os.environ:
            check_java(os.environ)
            _Session.ahead = launch(list(_jvm_properties(settings, os.environ)))
            atexit.register(_end_ahead)


def _end_ahead() -> None:
    """End a JVM that was never asked for, which could not remove its files itself."""
    ahead, _Session.ahead = _Session.ahead, None
    if ahead is not None:
        with contextlib.suppress(Exception):
            ahead.end()


def spark_context(settings: JobSettings) -> SparkContext:
    """The context to run on: the active one, or a new one for the master in ``settings``.

    A context of ours that was started for another master or other properties is replaced.

    Raises:
        BadSetup: Java or the cluster cannot be used, or is of another version of Spark.
    """
    reap_as_init()
    with _LOCK:
        active = active_context()
        asked = (settings.spark_master_url, settings.spark_conf, settings.standby)
        ours = active is _Session.context
        if active is not None:
            if not is_usable(active):
                forget(active)
            elif not ours or asked == _Session.asked:
                check_session(jvm_version(active), pyspark_version())
                if not ours:
                    warn_of_no_effect(active.master, settings)
                return active
            else:
                active.stop()
        _Session.context = _start(settings)
        _Session.asked = asked
        return _Session.context


def warn_of_no_effect(master: str, settings: JobSettings) -> None:
    """Say which options a session that the program has already cannot follow.

    Args:
        master: the session's.
        settings: what the job asks for.
    """
    if settings.named_master not in {None, master}:
        _LOGGER.warning(
            "--spark_master_url=%s has no effect: the program has a Spark session already, for "
            "%s. Stop that one first (SparkSession.stop) to have another.",
            settings.named_master,
            master,
        )
    if settings.spark_conf:
        _LOGGER.warning(
            "--spark_conf has no effect on the Spark session that the program has already: %s.",
            ", ".join(name for name, _ in settings.spark_conf),
        )


def is_ours(context: SparkContext) -> bool:
    """Whether the runner has started ``context``, not the user."""
    return context is _Session.context


def is_local(context: SparkContext) -> bool:
    """Whether tasks run in the driver's JVM; see ``runs_here``."""
    return runs_here(context.master)


def local_disks(context: SparkContext) -> str:
    """Where tasks keep local files; empty on a cluster, and where no setting says it."""
    if not is_local(context):
        return ""
    # Spark does without its property where there is the variable.
    return os.environ.get("SPARK_LOCAL_DIRS") or context.getConf().get(_LOCAL_FOLDERS) or ""


def _start(settings: JobSettings) -> SparkContext:
    master = settings.spark_master_url
    _check_place(settings)
    ahead, _Session.ahead = _Session.ahead, None
    try:
        lost = _Session.jvm
        started = start_jvm(list(_jvm_properties(settings, os.environ)), ahead)
        if started is not None:
            _Session.jvm = started
            if lost is not None:
                lost.clean_up()
        try:
            context = _context(settings)
        finally:
            if _Session.jvm is not None:
                _Session.jvm.remove_at_its_end()
    except BadSetup:
        raise
    except Exception as error:
        wanted = "" if master is None else f" for --spark_master_url={master}"
        message = f"Spark could not be started{wanted}: {gist(str(error))}"
        raise BadSetup(message) from error
    try:
        check_session(jvm_version(context), pyspark_version())
    except BadSetup:
        context.stop()
        raise
    context.setLogLevel("ERROR")
    silence(context, _SILENT)
    return context


def _context(settings: JobSettings) -> SparkContext:
    conf = _configuration(settings)
    known_master = conf.get("spark.master", "") or ""
    if settings.standby:
        park(conf, known_master)
    _own_local_folders(conf, known_master)
    if known_master.startswith("spark://"):
        # Spark itself would try for a minute, or get executors that end at once.
        check_cluster(known_master, pyspark_version(), partial(version_of_master, conf))
    if not runs_here(known_master):
        certificate_for(conf)  # rather now than when executors wait
    return new_context(conf)


def _check_place(settings: JobSettings) -> None:
    """Return if Python fits, and Java, Spark's jars and a master are where they are looked for."""
    try:
        check_python_for_spark()
    except NotNamed as warning:
        _LOGGER.warning("%s", warning)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        if not has_jvm():
            home = spark_home()
            check_home(home, home_version(home), pyspark_version())
        if _Session.ahead is None:
            check_java(os.environ)
    master = settings.spark_master_url
    if master is not None:
        given = {name for name, _ in settings.spark_conf} | spark_defaults(os.environ)
        check_master(master, given, os.environ)


def _configuration(settings: JobSettings) -> SparkConf:
    """What a new session is to have. With a JVM there, it has what Spark's own files say."""
    conf = SparkConf()
    if settings.spark_master_url is not None:
        conf.setMaster(settings.spark_master_url)
    known_master = conf.get("spark.master", "local") or ""
    local = _LOCAL if known_master.startswith("local") else {}
    for key, value in (_DEFAULTS | local).items():
        conf.setIfMissing(key, value)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        known = spark_defaults(os.environ)
        conf.setAll([entry for entry in _INSTEAD_OF_SHELLS.items() if entry[0] not in known])
    conf.setAll(list(settings.spark_conf))
    # Spark has asked for Java 17 since its version 4; before, an executor may have Java 8.
    has_new_java = int(pyspark_version().partition(".")[0]) >= 4
    if known_master.startswith(_WITH_WORKERS) and has_new_java:
        given = class_data(os.environ)
        if given:
            conf.setIfMissing(EXECUTOR_OPTIONS, given)
    _keep_sockets_private(conf)
    if known_master.startswith("local"):
        # Else Spark takes the first python3 on the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return conf


def _own_local_folders(conf: SparkConf, master: str) -> None:
    """Have Spark keep local files in folders that are removed even if its JVM is killed.

    Elsewhere than in the folder for temporary files, which is such a folder; and on this machine
    only: a cluster has other folders on each machine.
    """
    places = conf.get(_LOCAL_FOLDERS)
    if places and master.startswith("local") and _Session.jvm is not None:
        conf.set(_LOCAL_FOLDERS, _Session.jvm.folders_in(places))


def _keep_sockets_private(conf: SparkConf) -> None:
    """Have the JVM and Python use Unix sockets in a private folder, where that can be.

    Elsewhere they keep TCP on the loopback address, with Spark's secret.
    """
    master = conf.get("spark.master", "local") or ""
    forked = conf.get("spark.python.use.daemon", "true") == "true"
    # Without a daemon the JVM of an executor listens, in a folder that is on this machine only. In
    # containers the names of folders are often too long.
    reachable = master.startswith("local") or (forked and not master.startswith(_WITH_CONTAINERS))
    usual = os.environ.get("PYSPARK_UDS_MODE", "true" if reachable else "false")
    if not knows_setting(_SOCKET_FOLDER) or (conf.get(_SOCKETS, usual) or "").lower() != "true":
        conf.set(_SOCKETS, "false")
        return
    if conf.get(_SOCKET_FOLDER) is None:
        try:
            conf.set(_SOCKET_FOLDER, own_folder())
        except OSError as error:
            _LOGGER.warning("Spark and Python talk by TCP, which is slower: %s.", error)
            conf.set(_SOCKETS, "false")
            return
    elif not is_private(conf.get(_SOCKET_FOLDER) or ""):
        _LOGGER.warning(
            "Other users may reach the sockets by which Spark runs Python code, and Spark asks "
            "for no secret there: %s=%s is not a folder of this user with mode 0700. Leave the "
            "setting out to have such a folder.",
            _SOCKET_FOLDER,
            conf.get(_SOCKET_FOLDER),
        )
    conf.set(_SOCKETS, "true")


def _jvm_properties(settings: SparkAsked, environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    given = settings.spark_conf
    master = settings.spark_master_url or ""
    # There spark-submit prepares what containers are given, from all that is said to it.
    submits = master.startswith(_WITH_CONTAINERS)
    if submits:
        yield "spark.master", master
    names = {name for name, _ in given} | spark_defaults(environ)
    if _DRIVER_MEMORY[0] not in names and "SPARK_DRIVER_MEMORY" not in environ:
        yield _DRIVER_MEMORY
    if JAVA_OPTIONS not in names:
        yield JAVA_OPTIONS, using_class_data(environ)
    for name, value in given:
        # Every user of the machine can read the command line of the JVM. The session gets all.
        if name.startswith(_OF_THE_JVM) or (submits and not is_secret(name)):
            yield name, value


def spark_defaults(environ: Mapping[str, str]) -> set[str]:
    """The names of the properties in the user's ``spark-defaults.conf``."""
    home = environ.get("SPARK_HOME")
    directory = environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    if directory is None:
        return set()
    try:
        text = (Path(directory) / "spark-defaults.conf").read_text("utf-8")
    except OSError:
        return set()
    lines = (line.replace("=", " ").split() for line in text.splitlines())
    return {words[0] for words in lines if words and not words[0].startswith("#")}
