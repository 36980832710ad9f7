"""Lifted combines whose tables fill up while a compiled chain is at work on them."""

from __future__ import annotations

import json

import apache_beam as beam
import pytest

from sparkdrain.harness import combining
from tests.support.in_memory import run_in_memory


def total(numbers) -> int:
    return sum(numbers)


@pytest.mark.parametrize("fn", [sum, max, beam.combiners.CountCombineFn(), total])
def test_a_table_that_is_flushed_by_another_branch_loses_nothing(tmp_path, monkeypatch, fn) -> None:
    monkeypatch.setattr(combining, "_SMALL", 3)
    monkeypatch.setattr(combining, "_UNKNOWN", 3)
    out = str(tmp_path / "out")

    def save(kv) -> None:
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(kv) + "\n")

    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(200))
    _ = (
        (
            numbers | "A" >> beam.Map(lambda i: (i % 4, i)),
            numbers | "B" >> beam.Map(lambda i: (i % 9, i)),
        )
        | beam.Flatten()
        | beam.CombinePerKey(fn)
        | beam.Map(save)
    )
    run_in_memory(pipeline)
    inputs = [(i % 4, i) for i in range(200)] + [(i % 9, i) for i in range(200)]
    combine = len if isinstance(fn, beam.CombineFn) else fn
    expected = sorted([k, combine([v for key, v in inputs if key == k])] for k in range(9))
    with open(out, encoding="utf-8") as lines:
        assert sorted(json.loads(line) for line in lines) == expected
