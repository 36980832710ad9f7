"""Slow: what strangers can see and do who reach the page of Spark, on a real Spark."""

from __future__ import annotations

import time
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from pyspark import SparkContext

from tests.support.counting_job import checkpoints, count, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLANTED = "HUNTER2-planted"
SECRETS = ("spark.hadoop.fs.azure.account.key.mine", "spark.my.sasl.jaas.config")


def asked(page, path) -> str:
    with urlopen(f"{page}/{path}", timeout=60) as answer:
        return answer.read().decode()


def test_strangers_see_no_password_and_end_no_job(tmp_path):
    result = count(
        tmp_path,
        10**6,
        time.time(),
        "--spark_conf=spark.ui.enabled=true",
        "--spark_conf=spark.ui.port=0",
        *(f"--spark_conf={name}={PLANTED}" for name in SECRETS),
    )
    wait_for(lambda: checkpoints(tmp_path))
    context = SparkContext.getOrCreate()
    page = context.uiWebUrl
    shown = [
        asked(page, "environment/"),
        asked(page, f"api/v1/applications/{context.applicationId}/environment"),
    ]
    for text in shown:
        assert PLANTED not in text
    # The page itself asks for them; else nothing would be shown to it, either.
    assert [name for name in SECRETS if name not in shown[1]] == []

    # Rounds have Spark jobs with numbers that a stranger can guess.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        running = context.statusTracker().getActiveJobsIds()
        for job in running:
            with suppress(HTTPError):  # there is no such page
                asked(page, f"jobs/job/kill/?id={job}")
    before = max(checkpoints(tmp_path))
    wait_for(lambda: max(checkpoints(tmp_path)) > before)
    result.cancel()
    assert {name[:6] for name in checkpoints(tmp_path)} == {"000001"}, "no life was ended"
