"""PySpark takes the end of a connection for the end of what Spark serves; the driver does not."""

from __future__ import annotations

import apache_beam as beam
import pytest

from sparkdrain.errors import TruncatedInput
from sparkdrain.stages.spark import exchange

pytestmark = pytest.mark.spark


@pytest.fixture
def lose(monkeypatch):
    """Has the connection of the read with that number end before anything came through it."""
    reads = []
    whole = exchange.records_from

    def losing(number: int) -> None:
        def records_from(served):
            reads.append(served)
            records = list(whole(served))
            return iter([] if len(reads) == number else records)

        monkeypatch.setattr(exchange, "records_from", records_from)

    return losing


def write(pair: tuple[str, int], path: str) -> None:
    with open(f"{path}/{pair[0]}", "w") as file:
        file.write(str(pair[1]))


def count(pipeline, path, *flags: str):
    p = pipeline(*flags)
    pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)])
    _ = pairs | beam.CombinePerKey(sum) | beam.Map(write, str(path))
    return p.run().wait_until_finish()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_level_whose_reports_are_lost_is_not_an_empty_one(pipeline, lose, tmp_path, number):
    lose(number)
    with pytest.raises(TruncatedInput, match=r"of slots \[0, 1\] of level \d there is not one"):
        count(pipeline, tmp_path, "--job_attempts=1")


def test_the_job_is_run_again_and_makes_everything(pipeline, lose, tmp_path):
    lose(1)
    assert count(pipeline, tmp_path) == "DONE"
    made = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert made == {"a": "4", "b": "2"}
