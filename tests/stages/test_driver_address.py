"""The driver listens where Spark's own driver does."""

from __future__ import annotations

import sys

import pytest

from sparkdrain.errors import BadSetup
from sparkdrain.lines.server import TcpBind, UnixBind
from sparkdrain.own_folder import is_private, own_folder
from sparkdrain.stages.cluster import driver_address as driver_address_module
from sparkdrain.stages.cluster.driver_address import driver_address


class Context:
    """What is asked of a SparkContext."""

    def __init__(self, master, conf) -> None:
        self.master = master
        self._conf = conf

    def getConf(self):
        return self._conf


HOST = {"spark.driver.host": "driver.example"}
BOUND = {**HOST, "spark.driver.bindAddress": "10.0.0.7"}


@pytest.mark.parametrize(
    ("master", "conf", "bind"),
    [
        ("spark://there:7077", HOST, TcpBind("driver.example", "driver.example")),
        ("spark://there:7077", BOUND, TcpBind("driver.example", "10.0.0.7")),
        ("spark://there:7077", {}, TcpBind("127.0.0.1", "127.0.0.1")),
        ("local-cluster[2,1,1024]", BOUND, TcpBind("driver.example", "10.0.0.7")),
    ],
)
def test_it_listens_at_the_address_of_sparks_driver_only(master, conf, bind) -> None:
    assert driver_address(Context(master, conf)) == bind


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_with_a_local_master_it_listens_in_a_private_folder(master) -> None:
    bind = driver_address(Context(master, BOUND))
    assert bind == UnixBind(own_folder())
    assert is_private(bind.folder)


ENCRYPTED = [
    {"spark.ssl.rpc.enabled": "true"},
    {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"},
    {"spark.authenticate": "TRUE", "spark.authenticate.enableSaslEncryption": "true"},
]
CLEAR = [
    {},
    {"spark.authenticate": "true"},
    {"spark.network.crypto.enabled": "true"},  # has no effect without a secret
    {"spark.ssl.rpc.enabled": "false"},
    {"spark.ssl.enabled": "true"},  # pages only
]


@pytest.mark.parametrize(
    ("conf", "encrypted"),
    [*((conf, True) for conf in ENCRYPTED), *((conf, False) for conf in CLEAR)],
)
def test_lines_are_encrypted_if_sparks_traffic_is(conf, encrypted) -> None:
    bind = driver_address(Context("spark://there:7077", {**HOST, **conf}))
    assert (bind.certificate is not None) == encrypted


def test_without_the_package_there_is_an_error_before_the_start(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(BadSetup, match="pip install"):
        driver_address(Context("spark://there:7077", {**HOST, **ENCRYPTED[0]}))


def test_without_a_private_folder_there_is_an_error_with_a_remedy(monkeypatch) -> None:
    def none():
        message = "no private folder can be made; name one with TMPDIR"
        raise OSError(message)

    monkeypatch.setattr(driver_address_module, "own_folder", none)
    with pytest.raises(BadSetup, match=r"workers cannot reach the driver: .*TMPDIR"):
        driver_address(Context("local[2]", {}))
