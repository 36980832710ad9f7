"""A master that nobody answers for is named at once, with the option."""

from __future__ import annotations

import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.options import JobSettings
from sparkdrain.stages.cluster import context as cluster
from sparkdrain.stages.cluster.masters import check_master

MINE = {"HOME": "/nowhere"}


class Network:
    """Some servers, and who was asked."""

    def __init__(self, *servers: tuple[str, int]) -> None:
        self.servers = servers
        self.asked: list[tuple[str, int]] = []

    def connect(self, host: str, port: int) -> None:
        self.asked.append((host, port))
        if (host, port) not in self.servers:
            message = "refused"
            raise ConnectionRefusedError(message)


@pytest.mark.parametrize(
    ("master", "server"),
    [
        ("spark://a:7077", ("a", 7077)),
        ("spark://b:1,a:7077", ("a", 7077)),
        ("spark://[::1]:7077", ("::1", 7077)),
        ("k8s://https://a:6443", ("a", 6443)),
        ("k8s://https://a", ("a", 443)),
        ("k8s://http://a", ("a", 80)),
        ("k8s://a", ("a", 443)),
        ("k8s://a:6443", ("a", 6443)),
        ("k8s://https://[::1]:6443/below", ("::1", 6443)),
    ],
)
def test_who_answers_is_asked_once_and_is_the_last_one(master, server):
    network = Network(server)
    check_master(master, (), MINE, network.connect)
    assert network.asked[-1] == server
    assert network.asked.count(server) == 1


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://a:1", r"No Spark master answers at --spark_master_url=spark://a:1 \(a:1: ref"),
        ("spark://a:1,b:2", r"\(a:1: refused; b:2: refused\)"),
        ("spark://a", r"\(a: it is not host:port\)"),
        ("spark://a:x", r"=spark://a:x \(a:x: "),
        ("k8s://https://a:6443", r"No Kubernetes API server .*=k8s://https://a:6443 \(a:6443: ref"),
        ("k8s://a", r"=k8s://a \(a: refused\)"),
        ("k8s://", r"=k8s:// \(: it is not host:port\)"),
        ("k8s://https://[::1", r"=k8s://https://\[::1 \(\[::1: "),
        ("k8s://ftp://a", r"\(a: it is not host:port\)"),
    ],
)
def test_an_address_at_which_nobody_answers_is_named_with_the_option(master, said):
    with pytest.raises(BadSetup, match=said):
        check_master(master, (), MINE, Network().connect)


def test_nobody_is_asked_for_a_master_that_spark_is_itself():
    for master in ("local", "local[*]", "local-cluster[2,1,1024]"):
        check_master(master, (), MINE, Network().connect)


def test_kubernetes_behind_a_proxy_is_left_to_spark(tmp_path):
    check_master("k8s://a", (), {**MINE, "HTTPS_PROXY": "http://proxy:3128"}, Network().connect)
    (tmp_path / ".kube").mkdir()
    configuration = tmp_path / ".kube" / "config"
    configuration.write_text("clusters:\n- cluster:\n    proxy-url: http://proxy:3128\n")
    for environ in ({"HOME": str(tmp_path)}, {"KUBECONFIG": f"/nowhere:{configuration}"}):
        check_master("k8s://a", (), environ, Network().connect)


def test_yarn_needs_to_know_where_hadoops_configuration_is(tmp_path):
    with pytest.raises(
        BadSetup, match=r"=yarn: .*neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"
    ):
        check_master("yarn", (), MINE)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        environ = {name: f"/nowhere:{tmp_path}"}
        with pytest.raises(BadSetup, match=rf"=yarn: .*{name}=/nowhere:{tmp_path} has no \*-site"):
            check_master("yarn", (), environ)
    (tmp_path / "yarn-site.xml").touch()
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        check_master("yarn", (), {name: f"/nowhere:{tmp_path}"})


def test_a_jvm_that_was_started_ahead_is_there_for_the_next_try(monkeypatch):
    ahead = object()
    monkeypatch.setattr(cluster._Session, "ahead", ahead)
    with pytest.raises(BadSetup, match="No Spark master answers"):
        cluster._start(JobSettings(spark_master_url="spark://127.0.0.1:9"))
    assert cluster._Session.ahead is ahead


def test_properties_may_say_where_yarn_is():
    check_master("yarn", ["spark.hadoop.yarn.resourcemanager.hostname"], MINE)
    with pytest.raises(BadSetup):
        check_master("yarn", ["spark.yarn.queue"], MINE)
