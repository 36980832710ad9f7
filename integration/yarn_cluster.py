"""A YARN cluster on this machine: Hadoop's own small one, in one JVM, with containers of its own.

with YarnCluster() as cluster:
    ... HADOOP_CONF_DIR=cluster.configuration, --spark_master_url=yarn ...
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maven_jars import JARS_OF_SPARK, Artifact, jars
from py4j.java_gateway import JavaGateway
from spark_cluster import SHORT_LIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

# Hadoop's package has classes that ask for these, and does not bring them.
_ASKED_FOR = (
    Artifact("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    Artifact("org.bouncycastle", "bcpkix-jdk18on", "1.82"),
)
_SETTINGS = {
    "fs.defaultFS": "file:///",
    # Python's workers map much that they never touch; a shared disk may be nearly full.
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.maximum-allocation-mb": "4096",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}
_CORE_SITE = """<configuration>
<property><name>fs.defaultFS</name><value>file:///</value></property>
</configuration>
"""


def hadoop_version() -> str:
    """The version of Hadoop that PySpark brings its client of."""
    (client,) = JARS_OF_SPARK.glob("hadoop-client-api-*.jar")
    return client.stem.removeprefix("hadoop-client-api-")


def yarn_jars() -> Path:
    """The directory with the jars of Hadoop's small cluster."""
    version = hadoop_version()
    mini = Artifact("org.apache.hadoop", "hadoop-client-minicluster", version)
    return jars(f"yarn-{version}", mini, *_ASKED_FOR)


class YarnCluster:
    """A resource manager and ``nodes`` node managers; use it as a context manager.

    Attributes:
        configuration: what HADOOP_CONF_DIR has to be.
    """

    def __init__(self, nodes: int = 2) -> None:
        self._nodes = nodes

    def __enter__(self) -> YarnCluster:
        self._directory = Path(tempfile.mkdtemp(prefix="yarn-cluster-"))
        self.configuration = self._directory / "conf"
        self.configuration.mkdir()
        self._gateway: Any = None
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._gateway is not None:
            # Containers end with their drivers; ending the services one by one takes half a minute.
            self._gateway.shutdown()
            self._gateway.java_process.stdin.close()
            self._gateway.java_process.wait(30)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        fetched = yarn_jars()
        log = (self._directory / "yarn.log").open("w", buffering=1, encoding="utf-8")
        self._gateway = JavaGateway.launch_gateway(
            classpath=os.pathsep.join([f"{fetched}/*", f"{JARS_OF_SPARK}/*"]),
            javaopts=["--add-opens=java.base/java.lang=ALL-UNNAMED", *SHORT_LIVED],
            # The JVM ends when this process does, on purpose or not.
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(self._directory),
        )
        java = self._gateway.jvm
        settings = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in _SETTINGS.items():
            settings.set(name, value)
        cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("mini", self._nodes, 1, 1)
        cluster.init(settings)
        cluster.start()
        file = java.java.io.FileOutputStream(str(self.configuration / "yarn-site.xml"))
        cluster.getConfig().writeXml(file)
        file.close()
        (self.configuration / "core-site.xml").write_text(_CORE_SITE, encoding="utf-8")

    def logs(self) -> str:
        """The end of the log of the cluster and of every container."""
        return "\n".join(self._ends())

    def _ends(self) -> Iterator[str]:
        for log in [self._directory / "yarn.log", *self._directory.rglob("std*")]:
            end = log.read_text(errors="replace")[-3000:]
            yield f"--- {log.relative_to(self._directory)}\n{end}"
