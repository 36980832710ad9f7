"""The driver listens where Spark's own driver does."""

from __future__ import annotations

import pytest

from sparkdrain.stages.driver_address import driver_address


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
    ("master", "conf", "address"),
    [
        ("local[2]", BOUND, ("127.0.0.1", "127.0.0.1")),
        ("spark://there:7077", HOST, ("driver.example", "driver.example")),
        ("spark://there:7077", BOUND, ("driver.example", "10.0.0.7")),
        ("spark://there:7077", {}, ("127.0.0.1", "127.0.0.1")),
    ],
)
def test_it_listens_at_the_address_of_sparks_driver_only(master, conf, address) -> None:
    assert driver_address(Context(master, conf)) == address
