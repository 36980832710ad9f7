"""Where progress is shown, and that it is right at the end of a job."""

from __future__ import annotations

import io
import re

import apache_beam as beam
import pytest
from apache_beam.transforms.util import Reshuffle

from sparkdrain.stages.telling.progress_display import mode_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("asked", "stream", "terminal", "mode"),
    [
        ("auto", Terminal(), "xterm", "live"),
        ("auto", Terminal(), "dumb", "plain"),
        ("auto", io.StringIO(), "xterm", "plain"),
        ("live", io.StringIO(), "", "live"),
        ("plain", Terminal(), "xterm", "plain"),
        ("off", Terminal(), "xterm", "off"),
    ],
)
def test_auto_is_live_only_where_it_can_be_drawn(asked, stream, terminal, mode):
    assert mode_for(asked, stream, terminal) == mode


def numbers(p: beam.Pipeline) -> None:
    many = p | beam.Create(range(10)) | Reshuffle() | beam.FlatMap(lambda _: range(1000))
    _ = (
        many
        | beam.Map(lambda n: (n, 1))
        | beam.CombinePerKey(sum)
        | "Same" >> beam.Map(lambda p: p)
    )


@pytest.mark.spark
def test_the_last_line_sums_the_job_up(pipeline, capsys):
    with pipeline("--progress=plain") as p:
        numbers(p)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Job ")]
    pattern = r"Job \S+ done in \d+\.\d s: (\S+) k elements, \S+ \w+ shuffled, 0 B spilled"
    # 10,000 numbers and 1,000 sums; a few more where the levels before hand on their elements.
    assert 11.0 <= float(re.fullmatch(pattern, line)[1]) < 11.1


@pytest.mark.spark
def test_off_shows_nothing(pipeline, capsys):
    with pipeline("--progress=off") as p:
        numbers(p)
    assert "Job " not in capsys.readouterr().err


@pytest.mark.spark
def test_a_failing_job_is_not_summed_up(pipeline, capsys):
    with pytest.raises(RuntimeError, match="division"), pipeline("--progress=plain") as p:
        _ = p | beam.Create([0]) | beam.Map(lambda n: 1 // n)
    assert "done in" not in capsys.readouterr().err


@pytest.mark.spark
def test_the_live_table_shows_the_steps(pipeline, capsys):
    def slow(n: int) -> int:
        import time  # noqa: PLC0415 - in the worker

        time.sleep(2.5)
        return n

    with pipeline("--progress=live") as p:
        _ = p | beam.Create([1]) | "Take a while" >> beam.Map(slow)
    shown = capsys.readouterr().err
    assert "Take a while" in shown
    assert "elements" in shown
    assert "done in" in shown
