"""Beam's Nexmark queries, whose results are counted in metrics, and how to compare these."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter, defaultdict
from unittest.mock import patch

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.testing import test_stream
from apache_beam.testing.benchmarks.nexmark.models.nexmark_model import Auction, Bid, Person
from apache_beam.testing.benchmarks.nexmark.queries import query10
from apache_beam.transforms.window import TimestampedValue

METADATA = {
    "window_size_sec": 10,
    "window_period_sec": 5,
    "fanout": 5,
    "num_max_workers": 1,
    "max_log_events": 20,
    "occasional_delay_sec": 3,
    "max_auction_waiting_time": 600,
    "auction_skip": 3,
}
for _model in (Auction, Bid, Person):
    beam.coders.registry.register_coder(_model, type(_model.CODER))

FLAGS = ["--allow_unsafe_triggers"]
PLACES = "where results were counted"


def exactly(results: Counter) -> Counter:
    """The results as they are."""
    return Counter({json.dumps(result): n for (result, _), n in results.items()})


def in_any_pane(results: Counter) -> Counter:
    """The results as they are, whichever panes had them: a count of elements cuts the panes."""
    merged: Counter = Counter()
    for (result, _), n in results.items():
        merged[json.dumps(result, sort_keys=True)] += n
    return merged


def totals(key: str, value: str):
    """For panes that each tell what is new: what they make together."""

    def together(results: Counter) -> dict:
        sums: dict = defaultdict(int)
        for (result, _), n in results.items():
            sums[result[key]] += n * result[value]
        return sums

    return together


# Not 6: Beam's query 6 negates a Timestamp and so raises TypeError on every runner.
QUERIES = {
    0: exactly,
    1: exactly,
    2: exactly,
    3: in_any_pane,
    4: exactly,
    5: exactly,
    7: exactly,
    8: exactly,
    9: exactly,
    10: in_any_pane,
    11: totals("bidder_id", "bid_count"),
    12: totals("bidder_id", "bid_count"),
}


def _as_told(model) -> object:
    return json.loads(repr(model))


def _plain(result) -> object:
    return json.loads(json.dumps(result, default=_as_told))


def count(result, number, pane=beam.DoFn.PaneInfoParam) -> None:
    tell(result, number, pane.index)


def tell(result, number: int, index: int) -> None:
    """Count a result of a query, and the host that has it."""
    told = json.dumps([_plain(result), index], sort_keys=True)
    Metrics.counter(str(number), told).inc()
    Metrics.counter(PLACES, os.environ.get("SPARK_LOCAL_IP", "here")).inc()


class Logged(query10.WriteEventDoFn):
    """Counts the events that query 10 logs, by window: the query itself has no results."""

    def process(
        self,
        element,
        pipeline_options,
        window=beam.DoFn.WindowParam,
        pane_info=beam.DoFn.PaneInfoParam,
    ):
        shard, events = element
        for event in events:
            tell({"window": window.end.micros, "event": _plain(event)}, 10, pane_info.index)
        yield from super().process((shard, events), pipeline_options, window, pane_info)


class Indexed(query10.WriteIndexDoFn):
    """Counts the index files of query 10: one for each window."""

    def process(self, element, pipeline_options, window=beam.DoFn.WindowParam):
        tell({"window": window.end.micros, "index": bool(list(element[1]))}, 10, 0)
        super().process(element, pipeline_options, window)


class Query(beam.PTransform):
    """One of the queries, by its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def expand(self, pcoll):
        package = "apache_beam.testing.benchmarks.nexmark.queries"
        query = importlib.import_module(f"{package}.query{self._number}")
        with patch.multiple(query10, WriteEventDoFn=Logged, WriteIndexDoFn=Indexed):
            results = query.load(pcoll, METADATA, pcoll.pipeline.options)
        return results | "Count" >> beam.Map(count, self._number)


def ask(pipeline: beam.Pipeline, source, *numbers: int) -> None:
    """Put the queries of these numbers into ``pipeline``, all of one source."""
    found = source(pipeline)
    # In truth it ends; Beam refuses to group what is unbounded and global.
    found.is_bounded = True
    for number in numbers:
        _ = found | f"Query {number}" >> Query(number)


def answers(counters, number: int):
    """What came out, comparable: of (namespace, name, count)."""
    counts: Counter = Counter()
    for namespace, name, counted in counters:
        if namespace == str(number):
            result, index = json.loads(name)
            counts[_Result(result), index] += counted
    return QUERIES[number](counts)


class _Result(dict):
    def __init__(self, result) -> None:
        super().__init__(result if isinstance(result, dict) else {"is": result})

    def __hash__(self) -> int:
        return hash(json.dumps(self, sort_keys=True))

    def __lt__(self, other) -> bool:
        return json.dumps(self) < json.dumps(other)


def created(made):
    """A bounded source of events and their times."""
    return lambda p: p | beam.Create(made) | beam.MapTuple(TimestampedValue)


def streamed(made, chance):
    """The same as a stream: out of order within a few seconds, never late."""
    stream, rest = test_stream.TestStream(), sorted(made, key=lambda e: e[1] + chance.random() * 8)
    mark = 0.0
    while rest:
        size = chance.randint(1, 300)
        now, rest = rest[:size], rest[size:]
        stream = stream.add_elements([TimestampedValue(event, time) for event, time in now])
        limit = min((time for _, time in rest), default=mark)
        if chance.random() < 0.7 and int(limit) > mark:
            mark = int(limit)
            stream = stream.advance_watermark_to(mark)
    return lambda p: p | stream.advance_watermark_to_infinity()
